// A file of tokenised samples: header (8 letters, u64 key), all samples' bytes (data/tokenized_samples.h),
// their places as u64, what is known of the dataset as JSON, and a trailer with the sizes of these three
// parts and the XXH3-64 of all before it and of the sizes. In native byte order: it is never carried to
// another machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/file.h"
#include "data/tokenized_dataset.h"

namespace lazytrain {

// Writes samples in order. All functions throw Error(disk) where the system does not let them; destroyed
// without finish() it leaves nothing.
class TokenCacheWriter {
 public:
  TokenCacheWriter(const std::filesystem::path& path, std::uint64_t key);

  void add(const EncodedSample& sample);
  // Puts the file in place; `dataset` gets the samples as they are in it.
  void finish(TokenizedDataset& dataset);

 private:
  void write(const void* data, std::size_t size);
  void flush();

  std::filesystem::path path_;
  AtomicFile file_;
  std::vector<std::byte> buffer_;
  Checksum sum_;
  std::uint64_t bytes_ = 0;  // of samples
  std::vector<std::uint64_t> places_;
  SampleTotals totals_;
};

// The dataset in the file, every byte of it checked; nullopt where it is damaged, and `reason` says how.
[[nodiscard]] std::optional<TokenizedDataset> read_token_cache(const std::filesystem::path& path,
                                                               std::uint64_t key, std::string& reason);

}  // namespace lazytrain
