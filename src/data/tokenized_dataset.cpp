#include "data/tokenized_dataset.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

// Samples rendered at a time: enough to keep all threads busy, little enough to bound the memory for text.
constexpr std::size_t kBatch = 4096;
constexpr std::int64_t kShownRefusals = 20;

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
}

std::uint64_t hash(std::string_view text) {
  return checksum(std::as_bytes(std::span(text)));
}

// Samples about one question stay on one side of a split; records that name none are told apart by what the
// user says, so that copies stay together too.
std::uint64_t group_of(const Sample& sample) {
  if (!sample.original_question.empty()) return hash(sample.original_question);
  std::uint64_t group = 0;
  for (const Message& message : sample.messages) {
    if (message.role == Role::user) group = group * 31 + hash(message.content);
  }
  return group;
}

class Collector {
 public:
  Collector(const ChatTemplate& chat_template, const TokenizeOptions& options, ThreadPool& pool,
            const std::function<void(Sample&&)>& keep, TokenizedDataset& result)
      : template_(chat_template), options_(options), pool_(pool), keep_(keep), result_(result) {}

  void add(Sample&& sample, const std::string& file) {
    pending_.push_back(std::move(sample));
    if (pending_.size() == kBatch) flush(file);
  }

  void flush(const std::string& file) {
    rendered_.assign(pending_.size(), {});
    refused_.assign(pending_.size(), {});
    pool_.parallel_for(static_cast<std::int64_t>(pending_.size()), [&](std::int64_t i) {
      try {
        rendered_[i] = template_.render(pending_[i].messages);
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
        refused_[i] = error.what();  // this conversation only: the template has no place for one of its turns
      }
    });
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (refused_[i].empty()) {
        take(std::move(pending_[i]), rendered_[i], file);
      } else if (++result_.refused <= kShownRefusals) {
        result_.refusals.push_back(fmt::format("{}:{}: {}", file, pending_[i].line, refused_[i]));
      }
    }
    pending_.clear();
  }

 private:
  void take(Sample&& sample, Rendered& rendered, const std::string& file) {
    const auto length = static_cast<std::int64_t>(rendered.ids.size());
    result_.longest = std::max(result_.longest, length);
    if (length > options_.cutoff_len) {
      if (options_.overlong == Overlong::error) {
        fail(ExitCode::data,
             "{}:{}: the sample has {} tokens, cutoff_len allows {}: raise cutoff_len, or set overlong to "
             "drop or "
             "truncate",
             file, sample.line, length, options_.cutoff_len);
      }
      ++result_.overlong;
      if (options_.overlong == Overlong::drop) return;
      truncate(rendered.ids, rendered.supervised, options_.cutoff_len);
    }
    if (options_.train_on_prompt)
      std::fill(rendered.supervised.begin(), rendered.supervised.end(), std::uint8_t{1});
    // The first token is never predicted, so a mark on it alone is nothing to learn.
    const bool learns =
        !rendered.supervised.empty() &&
        std::find(rendered.supervised.begin() + 1, rendered.supervised.end(), 1) != rendered.supervised.end();
    if (!learns) {
      ++result_.unsupervised;
      return;
    }
    result_.samples.add(rendered.ids, rendered.supervised, group_of(sample), sample.line);
    if (keep_) keep_(std::move(sample));
  }

  const ChatTemplate& template_;
  const TokenizeOptions& options_;
  ThreadPool& pool_;
  const std::function<void(Sample&&)>& keep_;
  TokenizedDataset& result_;
  std::vector<Sample> pending_;
  std::vector<Rendered> rendered_;
  std::vector<std::string> refused_;  // why, by sample; empty = rendered
};

}  // namespace

Overlong parse_overlong(const std::string& text) {
  if (text == "drop") return Overlong::drop;
  if (text == "truncate") return Overlong::truncate;
  if (text == "error") return Overlong::error;
  fail(ExitCode::usage, "overlong is {}: use drop, truncate or error", in_quotes(text));
}

TokenizedDataset tokenize(const std::vector<DatasetSource>& sources, const ChatTemplate& chat_template,
                          const TokenizeOptions& options, ThreadPool& pool,
                          const std::function<void(Sample&&)>& keep) {
  if (options.cutoff_len < 2) {
    fail(ExitCode::usage, "cutoff_len is {}: a sample needs at least 2 tokens", options.cutoff_len);
  }
  if (options.max_samples && *options.max_samples < 1) {
    fail(ExitCode::usage, "max_samples is {}: give a number above 0, or remove the key",
         *options.max_samples);
  }
  TokenizedDataset result;
  Collector collector(chat_template, options, pool, keep, result);
  for (const DatasetSource& source : sources) {
    const std::string file = source.file.string();
    result.reports.push_back(read_dataset(source, options.max_samples,
                                          [&](Sample&& sample) { collector.add(std::move(sample), file); }));
    collector.flush(file);
  }
  if (result.samples.size() == 0) {
    fail(ExitCode::data, "{}: nothing is left to train on: {}raise cutoff_len or choose another template",
         sources.empty() ? "no dataset" : sources.front().file.string(), result.left_out(options, "; "));
  }
  return result;
}

std::string TokenizedDataset::left_out(const TokenizeOptions& options, const char* separator) const {
  std::string text;
  if (overlong > 0) {
    text += fmt::format("{} samples are longer than cutoff_len {} (the longest has {} tokens): {}{}",
                        overlong, options.cutoff_len, longest,
                        options.overlong == Overlong::drop ? "dropped" : "truncated", separator);
  }
  if (unsupervised > 0)
    text += fmt::format("{} samples have nothing to learn: dropped{}", unsupervised, separator);
  if (refused > 0) {
    text += fmt::format("{} samples do not suit the template: dropped{}", refused, separator);
    for (const std::string& refusal : refusals) text += refusal + separator;
  }
  return text;
}

std::string TokenizedDataset::summary(const TokenizeOptions& options) const {
  std::string text;
  for (const DatasetReport& report : reports) text += report.summary();
  text += left_out(options, "\n");
  text += fmt::format("{} samples, {} tokens, {} of them to be learned, fingerprint {:016x}\n",
                      samples.size(), samples.tokens(), samples.supervised_tokens(), samples.fingerprint());
  return text;
}

void truncate(std::vector<std::int32_t>& ids, std::vector<std::uint8_t>& supervised,
              std::int64_t cutoff_len) {
  const auto size = static_cast<std::int64_t>(ids.size());
  std::vector<std::int32_t> kept_ids;
  std::vector<std::uint8_t> kept_flags;
  const auto keep = [&](std::int64_t begin, std::int64_t count) {
    kept_ids.insert(kept_ids.end(), ids.begin() + begin, ids.begin() + begin + count);
    kept_flags.insert(kept_flags.end(), supervised.begin() + begin, supervised.begin() + begin + count);
  };
  for (std::int64_t begin = 0; begin < size && static_cast<std::int64_t>(kept_ids.size()) < cutoff_len;) {
    std::int64_t middle = begin;
    while (middle < size && supervised[middle] == 0) ++middle;
    std::int64_t end = middle;
    while (end < size && supervised[end] != 0) ++end;
    const std::int64_t source = middle - begin;
    const std::int64_t target = end - middle;
    const std::int64_t room = cutoff_len - static_cast<std::int64_t>(kept_ids.size());
    std::int64_t most = room;  // tokens of the target that may stay
    if (target * 2 >= room) most = source * 2 < room ? room - source : room * target / (source + target);
    const std::int64_t kept_target = std::min(most, target);
    keep(begin, std::min(room - kept_target, source));
    keep(middle, kept_target);
    begin = end;
  }
  ids = std::move(kept_ids);
  supervised = std::move(kept_flags);
}

std::string show_sample(const TokenizedSample& sample, const Tokenizer& tokenizer, bool colour) {
  const char* open = colour ? "\x1b[32m" : "[[";
  const char* close = colour ? "\x1b[0m" : "]]";
  std::string text;
  for (std::size_t begin = 0; begin < sample.ids.size();) {
    std::size_t end = begin;
    while (end < sample.ids.size() && sample.supervised[end] == sample.supervised[begin]) ++end;
    std::string part = tokenizer.decode(sample.ids.subspan(begin, end - begin));
    // A dataset must not be able to steer the terminal it is printed on.
    std::replace_if(part.begin(), part.end(), is_control, '?');
    text += sample.supervised[begin] != 0 ? open + part + close : part;
    begin = end;
  }
  return text;
}

}  // namespace lazytrain
