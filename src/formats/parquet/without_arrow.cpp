// The stream of builds without Arrow: no file is ever open.
#include "core/error.h"
#include "core/file.h"
#include "formats/parquet_stream.h"

namespace lazytrain {

struct ParquetStream::Impl {
  std::vector<std::string> columns;
};

bool ParquetStream::is_built_in() {
  return false;
}

ParquetStream::ParquetStream(const std::filesystem::path& path) {
  require_file(path, ExitCode::data);
  fail(ExitCode::data,
       "{}: a Parquet file, and this program was built without Parquet: build it with `make parquet`, or "
       "convert the file to JSONL",
       path.string());
}

ParquetStream::~ParquetStream() = default;
ParquetStream::ParquetStream(ParquetStream&& other) noexcept = default;
ParquetStream& ParquetStream::operator=(ParquetStream&& other) noexcept = default;

const std::vector<std::string>& ParquetStream::columns() const {
  return impl_->columns;
}
std::int64_t ParquetStream::rows() const {
  return 0;
}
void ParquetStream::use(const std::vector<RecordColumn>& /*columns*/) {}
std::uint64_t ParquetStream::size() const {
  return 0;
}
std::uint64_t ParquetStream::position() const {
  return 0;
}
bool ParquetStream::find(JsonRecord& /*record*/) {
  return false;
}
void ParquetStream::parse(JsonRecord& /*record*/, nlohmann::json& /*value*/) const {}
void ParquetStream::fail_bad(const JsonRecord& record, const std::string& advice) const {
  fail(ExitCode::data, "{}{}", record.reason, advice);
}

}  // namespace lazytrain
