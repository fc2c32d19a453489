// One dataset file. The first byte says under which name, and what becomes of a bad record.
#include "data/dataset.h"

#include <array>

#include "fuzz.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  if (input.empty()) return;
  constexpr std::array<const char*, 5> kNames{"data.json", "data.jsonl", "data.csv", "data.tsv", "data.txt"};
  const auto choice = static_cast<std::size_t>(input.front());
  const std::filesystem::path path = file(kNames[choice % kNames.size()], input.subspan(1));
  read_or_refuse([&] {
    const DatasetSource source{.name = "own", .file = path, .layout = {}, .num_samples = {}};
    DatasetReader reader(source, 1000, choice % 2 == 0 ? OnBadSample::error : OnBadSample::skip);
    DatasetReader::Record record;
    while (!reader.enough() && reader.next(record)) {
      DatasetReader::Converted converted = reader.convert(std::move(record));
      reader.take(converted);
      record = {};
    }
    static_cast<void>(reader.finish().summary());
  });
  std::filesystem::remove(path);
}

}  // namespace lazytrain::fuzz
