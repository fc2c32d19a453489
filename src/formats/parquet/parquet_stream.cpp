#include "formats/parquet_stream.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "formats/parquet/arrow_values.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

using parquet::arrow::SchemaField;

// A batch has as many rows as make up so many bytes on the average, but no more than so many.
constexpr std::int64_t kBatchBytes = std::int64_t{1} << 20;
constexpr std::int64_t kBatchRows = 1024;
// A column's pages are read from the file in pieces of so many bytes.
constexpr std::int64_t kReadBytes = std::int64_t{256} << 10;

// The first sentence of what Arrow says, as a part of ours.
std::string reason_of(const std::string& message) {
  std::string reason = printable_line(message.substr(0, message.find('\n')));
  reason = reason.substr(0, std::min(reason.find(". "), std::size_t{200}));
  while (!reason.empty() && (reason.back() == '.' || reason.back() == ' ')) reason.pop_back();
  return reason;
}

[[noreturn]] void fail_damaged(const std::filesystem::path& path, const std::string& reason) {
  fail(ExitCode::data,
       "{}: a Parquet file that is damaged or cut short ({}): download, copy or write it again",
       path.string(), reason);
}

[[noreturn]] void fail_on(const std::filesystem::path& path, const arrow::Status& status) {
  if (status.IsNotImplemented())
    fail(ExitCode::data,
         "{}: a Parquet file written in a way that is not read ({}): write it again with other settings, or "
         "convert it to JSONL",
         path.string(), reason_of(status.message()));
  if (status.IsOutOfMemory()) fail_damaged(path, "it asks for more memory than there is");
  fail_damaged(path, reason_of(status.message()));
}

// Runs `action`; whatever Arrow throws in it is an error of the file.
template <typename Action>
void guarded(const std::filesystem::path& path, const Action& action) {
  try {
    action();
  } catch (const Error&) {
    throw;
  } catch (const parquet::ParquetStatusException& exception) {
    fail_on(path, exception.status());
  } catch (const std::bad_alloc&) {
    fail_damaged(path, "it asks for more memory than there is");
  } catch (const std::exception& exception) {
    fail_damaged(path, reason_of(exception.what()));
  }
}

void require(const arrow::Status& status) {
  if (!status.ok()) throw parquet::ParquetStatusException(status);
}
template <typename Value>
Value require(arrow::Result<Value> result) {
  require(result.status());
  return std::move(result).ValueUnsafe();
}

// The numbers of the columns as they lie in the file, one for each field that is no struct.
void add_leaves(const SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const SchemaField& child : field.children) add_leaves(child, leaves);
}

// The same, of the structs in `field` only the fields of these names.
void add_leaves(const SchemaField& field, const std::vector<std::string>& names, std::vector<int>& leaves) {
  const SchemaField* inside = &field;
  while (inside->field->type()->id() != arrow::Type::STRUCT && inside->children.size() == 1)
    inside = &inside->children.front();
  const std::size_t before = leaves.size();
  if (inside->field->type()->id() == arrow::Type::STRUCT) {
    for (const SchemaField& child : inside->children) {
      if (std::find(names.begin(), names.end(), child.field->name()) != names.end())
        add_leaves(child, leaves);
    }
  }
  if (leaves.size() == before) add_leaves(field, leaves);
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + in_quotes(names[i]);
  return names.size() > kMost ? text + ", ..." : text;
}

}  // namespace

struct ParquetStream::Impl {
  std::filesystem::path path;
  std::uint64_t size = 0;
  std::int64_t rows = 0;
  std::vector<std::string> columns;
  std::unique_ptr<parquet::arrow::FileReader> reader;
  std::vector<int> leaves;  // that are read; sorted

  int group = -1;  // the row group that `batches` reads
  std::unique_ptr<arrow::RecordBatchReader> batches;
  std::int64_t group_rows = 0;              // of it, still to come
  std::shared_ptr<const std::string> text;  // the rows of one batch, one behind the other
  std::vector<std::size_t> ends;            // of the rows in it
  std::size_t next = 0;                     // the row in it that is handed out next
  std::int64_t row = 0;                     // rows handed out

  void open();
  void use_all();
  bool open_group();
  bool read_batch();
};

void ParquetStream::Impl::open() {
  parquet::ReaderProperties file_properties(arrow::system_memory_pool());
  file_properties.enable_buffered_stream();
  file_properties.set_buffer_size(kReadBytes);
  file_properties.set_page_checksum_verification(true);
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_pre_buffer(false);  // it would hold all row groups in memory
  properties.set_should_load_statistics(false);

  auto file = require(arrow::io::ReadableFile::Open(path.string(), arrow::system_memory_pool()));
  parquet::arrow::FileReaderBuilder builder;
  require(builder.Open(std::move(file), file_properties));
  builder.memory_pool(arrow::system_memory_pool());
  builder.properties(properties);
  reader = require(builder.Build());
  rows = reader->parquet_reader()->metadata()->num_rows();
  if (rows < 0) fail_damaged(path, fmt::format("it claims {} rows", rows));
  for (const SchemaField& field : reader->manifest().schema_fields) columns.push_back(field.field->name());
}

void ParquetStream::Impl::use_all() {
  for (const SchemaField& field : reader->manifest().schema_fields) {
    if (!find_unreadable(*field.field)) add_leaves(field, leaves);
  }
  std::sort(leaves.begin(), leaves.end());
}

// False behind the last row group.
bool ParquetStream::Impl::open_group() {
  const auto metadata = reader->parquet_reader()->metadata();
  if (++group >= metadata->num_row_groups()) return false;
  const auto group_metadata = metadata->RowGroup(group);
  group_rows = group_metadata->num_rows();
  std::int64_t bytes = 0;
  for (const int leaf : leaves)  // untrusted numbers, of which none may overflow the sum
    bytes += std::clamp<std::int64_t>(group_metadata->ColumnChunk(leaf)->total_uncompressed_size(), 0,
                                      std::int64_t{1} << 40);
  const std::int64_t row_bytes = std::max<std::int64_t>(bytes / std::max<std::int64_t>(group_rows, 1), 1);
  reader->set_batch_size(std::clamp<std::int64_t>(kBatchBytes / row_bytes, 1, kBatchRows));
  batches = require(reader->GetRecordBatchReader({group}, leaves));
  return true;
}

// False at the end of the file.
bool ParquetStream::Impl::read_batch() {
  std::shared_ptr<arrow::RecordBatch> batch;
  while (batch == nullptr || batch->num_rows() == 0) {
    if (batches == nullptr && !open_group()) return false;
    require(batches->ReadNext(&batch));
    if (batch != nullptr) continue;
    if (group_rows > 0) fail_damaged(path, fmt::format("its row group {} lacks {} rows", group, group_rows));
    batches.reset();
  }
  require(batch->Validate());
  group_rows -= batch->num_rows();
  if (group_rows < 0) fail_damaged(path, fmt::format("its row group {} has too many rows", group));
  auto lines = std::make_shared<std::string>();
  ends.clear();
  for (std::int64_t i = 0; i < batch->num_rows(); ++i) {
    *lines += '{';
    for (int column = 0; column < batch->num_columns(); ++column) {
      if (column > 0) *lines += ", ";
      append_json_text(batch->schema()->field(column)->name(), *lines);
      *lines += ": ";
      append_json(*batch->column(column), i, *lines);
    }
    *lines += '}';
    ends.push_back(lines->size());
  }
  text = std::move(lines);
  next = 0;
  return true;
}

bool ParquetStream::is_built_in() {
  return true;
}

ParquetStream::ParquetStream(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  require_file(path, ExitCode::data);
  impl_->path = path;
  guarded(path, [&] {
    impl_->size = std::filesystem::file_size(path);
    impl_->open();
  });
}

ParquetStream::~ParquetStream() = default;
ParquetStream::ParquetStream(ParquetStream&& other) noexcept = default;
ParquetStream& ParquetStream::operator=(ParquetStream&& other) noexcept = default;

const std::vector<std::string>& ParquetStream::columns() const {
  return impl_->columns;
}
std::int64_t ParquetStream::rows() const {
  return impl_->rows;
}
std::uint64_t ParquetStream::size() const {
  return impl_->size;
}

std::uint64_t ParquetStream::position() const {
  if (impl_->row >= impl_->rows) return impl_->size;
  const double share = static_cast<double>(impl_->row) / static_cast<double>(impl_->rows);
  return std::min(impl_->size, static_cast<std::uint64_t>(share * static_cast<double>(impl_->size)));
}

void ParquetStream::use(const std::vector<RecordColumn>& columns) {
  check(impl_->group < 0, "columns are chosen before the first record");
  impl_->leaves.clear();
  std::vector<std::string> wanted;
  guarded(impl_->path, [&] {
    for (const RecordColumn& column : columns) {
      wanted.push_back(column.name);
      if (std::count(impl_->columns.begin(), impl_->columns.end(), column.name) > 1)
        fail(ExitCode::data, "{}: two columns are named {}; rename one", impl_->path.string(),
             in_quotes(column.name));
      for (const SchemaField& field : impl_->reader->manifest().schema_fields) {
        if (field.field->name() == column.name) add_leaves(field, column.fields, impl_->leaves);
      }
    }
    std::sort(impl_->leaves.begin(), impl_->leaves.end());
    impl_->leaves.erase(std::unique(impl_->leaves.begin(), impl_->leaves.end()), impl_->leaves.end());
    if (impl_->leaves.empty())
      fail(ExitCode::data, "{}: its columns are {}, and none of them is used (used are {}); rename some",
           impl_->path.string(), listed(impl_->columns), listed(wanted));
    const auto schema = require(impl_->reader->GetRecordBatchReader({}, impl_->leaves))->schema();
    for (const auto& field : schema->fields()) {
      if (const auto found = find_unreadable(*field))
        fail(ExitCode::data, "{}: the column {} is of type {}, which is not read; store it as text",
             impl_->path.string(), in_quotes(found->path), printable_line(found->type));
    }
  });
}

bool ParquetStream::find(JsonRecord& record) {
  Impl& impl = *impl_;
  if (impl.next == impl.ends.size()) {
    bool more = false;
    guarded(impl.path, [&] {
      if (impl.leaves.empty()) impl.use_all();
      more = !impl.leaves.empty() && impl.read_batch();
    });
    if (!more) {
      impl.ends.clear();
      impl.text.reset();
      impl.next = 0;
      return false;
    }
  }
  const std::size_t begin = impl.next == 0 ? 0 : impl.ends[impl.next - 1];
  record = {};
  record.text = std::string_view(*impl.text).substr(begin, impl.ends[impl.next] - begin);
  record.owner = impl.text;
  record.line = ++impl.row;
  ++impl.next;
  if (record.text.size() > JsonStream::kLongestRecord)
    record.reason = fmt::format("longer than {} MiB", JsonStream::kLongestRecord >> 20);
  return true;
}

void ParquetStream::parse(JsonRecord& record, nlohmann::json& value) const {
  parse_record(record, value);
}

void ParquetStream::fail_bad(const JsonRecord& record, const std::string& advice) const {
  fail(ExitCode::data, "{}:{}: {}{}", impl_->path.string(), record.line, record.reason, advice);
}

}  // namespace lazytrain
