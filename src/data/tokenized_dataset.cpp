#include "data/tokenized_dataset.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/ordered_work.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

// A thread takes so many records at a time, or as many as have so many bytes: enough to make handing out
// cheap, little enough to bound the memory for text.
constexpr std::size_t kPieceRecords = 512;
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
// Pieces that may wait, for each thread.
constexpr std::int64_t kWaiting = 4;
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
    if (message.role == Role::user || sample.whole_text) group = group * 31 + hash(message.content);
  }
  return group;
}

// A record after the part of the work that is done on any thread.
struct Worked {
  DatasetReader::Converted record;
  std::string refused;      // why the template did not take it; empty = it did
  std::int64_t length = 0;  // tokens before any cut
  bool learns = false;      // something in it is to be predicted
  EncodedSample encoded;    // where it is kept
};

struct Piece {
  std::vector<DatasetReader::Record> records;
  std::uint64_t position = 0;  // in the file, behind them
};
struct WorkedPiece {
  std::vector<Worked> records;
  std::uint64_t position = 0;
};

// Reads, works and counts for one file.
class Collector {
 public:
  Collector(DatasetReader& reader, const DatasetTemplates& templates, const TokenizeOptions& options,
            TokenizedDataset& result)
      : reader_(reader), templates_(templates), options_(options), result_(result) {}

  bool read(Piece& piece) {
    std::size_t bytes = 0;
    while (piece.records.size() < kPieceRecords && bytes < kPieceBytes) {
      DatasetReader::Record record;
      if (!reader_.next(record)) break;
      bytes += record.raw.text.size();
      piece.records.push_back(std::move(record));
    }
    piece.position = reader_.position();
    return !piece.records.empty();
  }

  WorkedPiece work(Piece&& piece) const {
    WorkedPiece worked;
    worked.position = piece.position;
    worked.records.reserve(piece.records.size());
    for (DatasetReader::Record& record : piece.records) worked.records.push_back(work_on(std::move(record)));
    return worked;
  }

  // False: no more is wanted.
  bool write(WorkedPiece&& piece, const std::string& file,
             const std::function<void(const EncodedSample&)>& sink,
             const std::function<void(Sample&&)>& keep) {
    for (Worked& worked : piece.records) {
      if (reader_.enough()) return false;
      if (!reader_.take(worked.record) || !counted(worked, file)) continue;
      sink(worked.encoded);
      ++kept_;
      if (keep) keep(std::move(*worked.record.conversion.sample));
    }
    return !reader_.enough();
  }
  [[nodiscard]] std::int64_t kept() const { return kept_; }

 private:
  [[nodiscard]] bool too_long(std::int64_t length) const { return length > options_.cutoff_len; }

  const ChatTemplate& template_of(const Sample& sample) const {
    if (!sample.whole_text) return templates_.conversation;
    if (templates_.text == nullptr)
      fail(ExitCode::data,
           "a text needs a token that ends it, and no eos_token is named beside the tokenizer");
    return *templates_.text;
  }

  Worked work_on(DatasetReader::Record&& record) const {
    Worked worked;
    worked.record = reader_.convert(std::move(record));
    if (!worked.record.conversion.sample) return worked;
    const Sample& sample = *worked.record.conversion.sample;
    Rendered rendered;
    try {
      rendered = template_of(sample).render(sample.messages, {.tools = sample.tools});
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      worked.refused =
          error.what();  // this conversation only: the template has no place for one of its turns
      return worked;
    }
    worked.length = static_cast<std::int64_t>(rendered.ids.size());
    if (too_long(worked.length)) {
      if (options_.overlong != Overlong::truncate) return worked;
      truncate(rendered.ids, rendered.supervised, options_.cutoff_len);
    }
    if (options_.train_on_prompt)
      std::fill(rendered.supervised.begin(), rendered.supervised.end(), std::uint8_t{1});
    // The first token is never predicted, so a mark on it alone is nothing to learn.
    worked.learns =
        !rendered.supervised.empty() &&
        std::find(rendered.supervised.begin() + 1, rendered.supervised.end(), 1) != rendered.supervised.end();
    if (worked.learns)
      worked.encoded = encode_sample(rendered.ids, rendered.supervised, group_of(sample), sample.line);
    return worked;
  }

  // Counts what is left out and cut; true where the sample is kept.
  bool counted(const Worked& worked, const std::string& file) {
    const std::int64_t line = worked.record.raw.line;
    if (!worked.refused.empty()) {
      if (++result_.refused <= kShownRefusals)
        result_.refusals.push_back(fmt::format("{}:{}: {}", file, line, worked.refused));
      return false;
    }
    result_.longest = std::max(result_.longest, worked.length);
    if (too_long(worked.length)) {
      if (options_.overlong == Overlong::error) {
        fail(ExitCode::data,
             "{}:{}: the sample has {} tokens, cutoff_len allows {}: raise cutoff_len, or set overlong to "
             "drop or "
             "truncate",
             file, line, worked.length, options_.cutoff_len);
      }
      ++result_.overlong;
      if (options_.overlong == Overlong::drop) return false;
    }
    if (!worked.learns) ++result_.unsupervised;
    return worked.learns;
  }

  DatasetReader& reader_;
  const DatasetTemplates& templates_;
  const TokenizeOptions& options_;
  TokenizedDataset& result_;
  std::int64_t kept_ = 0;
};

std::uint64_t size_of(const DatasetSource& source) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(source.file, ignored);
  return ignored ? 0 : size;
}

}  // namespace

Overlong parse_overlong(const std::string& text) {
  if (text == "drop") return Overlong::drop;
  if (text == "truncate") return Overlong::truncate;
  if (text == "error") return Overlong::error;
  fail(ExitCode::usage, "overlong is {}: use drop, truncate or error", in_quotes(text));
}

TokenizedDataset tokenize(const std::vector<DatasetSource>& sources, const DatasetTemplates& templates,
                          const TokenizeOptions& options, ThreadPool& pool,
                          const std::function<void(Sample&&)>& keep, const TokenizeProgress& progress) {
  TokenizedSamples samples;
  TokenizedDataset result = tokenize_into([&](const EncodedSample& sample) { samples.add(sample); }, sources,
                                          templates, options, pool, keep, progress);
  result.samples = std::move(samples);
  return result;
}

TokenizedDataset tokenize_into(const std::function<void(const EncodedSample&)>& sink,
                               const std::vector<DatasetSource>& sources, const DatasetTemplates& templates,
                               const TokenizeOptions& options, ThreadPool& pool,
                               const std::function<void(Sample&&)>& keep, const TokenizeProgress& progress) {
  if (options.cutoff_len < 2) {
    fail(ExitCode::usage, "cutoff_len is {}: a sample needs at least 2 tokens", options.cutoff_len);
  }
  if (options.max_samples && *options.max_samples < 1) {
    fail(ExitCode::usage, "max_samples is {}: give a number above 0, or remove the key",
         *options.max_samples);
  }
  TokenizedDataset result;
  result.begins.push_back(0);
  std::uint64_t all = 0, behind = 0;
  for (const DatasetSource& source : sources) all += size_of(source);
  for (const DatasetSource& source : sources) {
    const std::string file = source.file.string();
    DatasetReader reader(source, options.max_samples, options.on_bad_sample);
    Collector collector(reader, templates, options, result);
    using Work = OrderedWork<Piece, WorkedPiece>;
    const Work::Stages stages{.read = [&](Piece& piece) { return collector.read(piece); },
                              .work = [&](Piece&& piece) { return collector.work(std::move(piece)); },
                              .write =
                                  [&](WorkedPiece&& piece) {
                                    const std::uint64_t position = piece.position;
                                    const bool more = collector.write(std::move(piece), file, sink, keep);
                                    if (progress) progress(behind + position, all);
                                    return more;
                                  }};
    Work::run(pool, kWaiting * pool.size(), stages);
    result.reports.push_back(reader.finish());
    result.begins.push_back(result.begins.back() + collector.kept());
    behind += reader.size();
  }
  if (result.begins.back() == 0) {
    constexpr std::size_t kTold = 2;  // of what the template refused: the error stays one readable sentence
    if (result.refusals.size() > kTold) result.refusals.resize(kTold);
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
    std::string part = tokenizer.decode(std::span(sample.ids).subspan(begin, end - begin));
    // A dataset must not be able to steer the terminal it is printed on.
    std::replace_if(part.begin(), part.end(), is_control, '?');
    text += sample.supervised[begin] != 0 ? open + part + close : part;
    begin = end;
  }
  return text;
}

}  // namespace lazytrain
