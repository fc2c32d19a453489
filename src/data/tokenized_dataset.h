// Datasets -> token ids: reads the records, renders each conversation with the chat template, applies the
// length limit, and counts whatever is left out. Records are found one by one, worked on by all threads of a
// pool, and taken in their order, a few at a time: the result does not depend on the number of threads, and
// memory does not grow with the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/threads.h"
#include "data/dataset.h"
#include "data/tokenized_samples.h"
#include "text/chat_template.h"

namespace lazytrain {

// What becomes of a sample with more than cutoff_len tokens.
enum class Overlong : std::uint8_t { drop, truncate, error };

// "drop", "truncate" or "error"; Error(usage) otherwise.
[[nodiscard]] Overlong parse_overlong(const std::string& text);

struct TokenizeOptions {
  std::int64_t cutoff_len = 2048;
  Overlong overlong = Overlong::drop;
  bool train_on_prompt = false;
  std::optional<std::int64_t> max_samples = {};  // of each dataset, the first valid ones
  OnBadSample on_bad_sample = OnBadSample::error;
};

// How samples are written.
struct DatasetTemplates {
  // NOLINTNEXTLINE(google-explicit-constructor): most datasets have conversations only
  DatasetTemplates(const ChatTemplate& for_conversations, const ChatTemplate* for_text = nullptr)
      : conversation(for_conversations), text(for_text) {}
  const ChatTemplate& conversation;
  // Of samples that are one text: a template that puts nothing around the assistant's message but the
  // beginning and end of a text ("plain"). Null: such samples are refused.
  const ChatTemplate* text;
};

struct TokenizedDataset {
  TokenizedSamples samples;
  std::vector<DatasetReport> reports;  // one a file
  std::vector<std::int64_t> begins;    // of each file's samples; one more than files
  std::int64_t overlong = 0;           // longer than cutoff_len: dropped, or truncated
  std::int64_t unsupervised = 0;       // dropped: nothing in them to learn
  std::int64_t refused = 0;            // dropped: the template has no place for one of their turns
  std::vector<std::string> refusals;   // "file:line: reason" of the first 20 of these
  std::int64_t longest = 0;            // tokens of the longest sample met, before any cut

  // What was read, kept and left out, one line a fact.
  [[nodiscard]] std::string summary(const TokenizeOptions& options) const;
  // Only the samples that tokenising left out or cut, each sentence followed by the separator; "" where none
  // was.
  [[nodiscard]] std::string left_out(const TokenizeOptions& options, const char* separator) const;
};

// Bytes of the files behind, and of all. What it throws ends the work.
using TokenizeProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Error(data) for malformed files, for a sample over the limit under Overlong::error (file, line and length),
// and where nothing is left to train on. `keep`, where given, sees every sample that was kept (evaluation
// needs the text). The samples are in memory; data/token_cache.h has them in a file.
[[nodiscard]] TokenizedDataset tokenize(const std::vector<DatasetSource>& sources,
                                        const DatasetTemplates& templates, const TokenizeOptions& options,
                                        ThreadPool& pool, const std::function<void(Sample&&)>& keep = {},
                                        const TokenizeProgress& progress = {});
// The same with the samples handed to `sink` in order; those of the result stay empty.
[[nodiscard]] TokenizedDataset tokenize_into(const std::function<void(const EncodedSample&)>& sink,
                                             const std::vector<DatasetSource>& sources,
                                             const DatasetTemplates& templates,
                                             const TokenizeOptions& options, ThreadPool& pool,
                                             const std::function<void(Sample&&)>& keep = {},
                                             const TokenizeProgress& progress = {});

// Cuts a sample to `cutoff_len` tokens turn by turn, as LLaMA-Factory does: of a turn's source (not
// supervised) and target (supervised) a target shorter than half of what is left is kept whole, else a source
// that is, else both give in proportion. `supervised` must be that of train_on_prompt = false.
void truncate(std::vector<std::int32_t>& ids, std::vector<std::uint8_t>& supervised, std::int64_t cutoff_len);

// A sample as text with what the model is to learn marked: in colour, or in [[ ]] where `colour` is false.
[[nodiscard]] std::string show_sample(const TokenizedSample& sample, const Tokenizer& tokenizer, bool colour);

}  // namespace lazytrain
