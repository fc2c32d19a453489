#include "training/run_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/random.h"
#include "data/mixing.h"
#include "data/token_cache.h"
#include "formats/text_checks.h"
#include "model/architecture.h"
#include "training/reading_progress.h"

namespace lazytrain {
namespace {

TokenizedDataset read(const std::vector<std::string>& names, const RunConfig& config, const ModelText& text,
                      ThreadPool& pool, const std::function<void(const std::string&)>& notice,
                      const std::function<bool()>& stop) {
  const TokenizeOptions options{.cutoff_len = config.cutoff_len,
                                .overlong = parse_overlong(config.overlong),
                                .train_on_prompt = config.train_on_prompt,
                                .max_samples = config.max_samples,
                                .on_bad_sample = parse_on_bad_sample(config.on_bad_sample)};
  const std::vector<DatasetSource> sources = find_datasets(names, config.dataset_dir);
  for (const DatasetSource& source : sources) {
    for (const std::string& line : source.notices) notice(line);
  }
  const TokenCache cache{
      .folder = cache_folder() / "tokens", .overwrite = config.overwrite_cache, .tokenizer = text.files};
  ReadingProgress progress(reading_progress_options());
  TokenizedDataset dataset = tokenize_cached(
      cache, sources, text.templates(), options, pool, notice, [&](std::uint64_t done, std::uint64_t all) {
        if (stop && stop())
          fail(ExitCode::interrupted, "stopped by a signal while the data was read; nothing was trained");
        progress.update(done, all);
      });
  text.require_known(std::array{dataset.samples.largest_id()});
  notice(dataset.summary(options));
  return dataset;
}

std::time_t noon_of(const std::string& date) {
  std::tm local{};
  const char* end = strptime(date.c_str(), "%Y-%m-%d", &local);
  local.tm_hour = 12;
  local.tm_isdst = -1;
  const std::time_t time = end != nullptr && *end == '\0' ? std::mktime(&local) : -1;
  if (time == -1)
    fail(ExitCode::usage, "template_date is {}: give a date such as 2026-01-31", in_quotes(date));
  return time;
}

// Brings the training samples of several datasets into the order of the mix.
void interleave(RunData& data, MixStrategy strategy, const std::vector<double>& probs, std::uint64_t seed) {
  const std::vector<std::int64_t>& begins = data.train.begins;
  if (strategy == MixStrategy::concat || begins.size() <= 2) return;
  std::vector<std::vector<std::int64_t>> parts(begins.size() - 1);
  for (const std::int64_t sample : data.train_samples) {
    const auto after = std::upper_bound(begins.begin(), begins.end(), sample);
    parts[static_cast<std::size_t>(after - begins.begin()) - 1].push_back(sample);
  }
  data.train_samples = mix(parts, strategy, probs, seed);
  data.mixed = true;
}

}  // namespace

void ModelText::require_known(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id < vocabulary) continue;
    fail(ExitCode::model_file,
         "{}: the token {} ('{}') lies beyond the model's vocab_size, {}: tokenizer and model do not belong "
         "together; get both from one place",
         tokenizer.where(), id, tokenizer.id_to_token(id).value_or(""), vocabulary);
  }
}

std::uint64_t RunData::fingerprint() const {
  if (!mixed) return train.samples.fingerprint();
  return mix64(train.samples.fingerprint() ^ checksum(std::as_bytes(std::span(train_samples))));
}

ModelText load_model_text(const std::string& folder, const std::optional<std::string>& wish,
                          const TemplateSettings& settings) {
  const std::int64_t vocabulary = read_architecture(folder).vocab;
  const std::uint64_t files = tokenizer_files_hash(folder);
  Tokenizer tokenizer = Tokenizer::load(folder);
  ChosenTemplate chosen = choose_template(folder, wish, tokenizer, settings);
  std::optional<ChatTemplate> text_template;
  if (tokenizer.end_of_text()) text_template = ChatTemplate::named("plain", tokenizer);
  return {
      std::move(tokenizer),    std::move(chosen.chat_template), std::move(chosen.reason), vocabulary, files,
      std::move(text_template)};
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

ModelText load_model_text(const RunConfig& config) {
  TemplateSettings settings{
      .mask_history = config.mask_history, .enable_thinking = config.enable_thinking, .now = {}};
  if (config.template_date) settings.now = noon_of(*config.template_date);
  return load_model_text(config.model_name_or_path, config.template_name, settings);
}

RunData load_run_data(const RunConfig& config, const ModelText& text, ThreadPool& pool,
                      const std::function<void(const std::string&)>& notice, bool colours,
                      const std::function<bool()>& stop) {
  const MixStrategy strategy = parse_mix_strategy(config.mix_strategy);
  const std::vector<double> probs =
      parse_interleave_probs(config.interleave_probs, strategy, config.dataset.size());
  notice(fmt::format("template {}: {}", text.chat_template.name(), text.template_reason));
  RunData data{.train = read(config.dataset, config, text, pool, notice, stop),
               .train_samples = {},
               .mixed = false,
               .eval_dataset = {},
               .eval_samples = {}};
  if (config.val_size > 0) {
    DataSplit split = split_by_group(data.train.samples, config.val_size, config.seed);
    data.train_samples = std::move(split.train);
    data.eval_samples = std::move(split.validation);
  } else {
    data.train_samples.resize(static_cast<std::size_t>(data.train.samples.size()));
    std::iota(data.train_samples.begin(), data.train_samples.end(), 0);
  }
  interleave(data, strategy, probs, config.seed);
  if (!config.eval_dataset.empty()) {
    data.eval_dataset = read(config.eval_dataset, config, text, pool, notice, stop);
    data.eval_samples.resize(static_cast<std::size_t>(data.eval_dataset->samples.size()));
    std::iota(data.eval_samples.begin(), data.eval_samples.end(), 0);
  }
  if (!data.train_samples.empty()) {
    notice("one sample as the model sees it, what it learns to say marked:");
    notice(show_sample(data.train.samples[data.train_samples.front()], text.tokenizer, colours));
  }
  return data;
}

PackingOptions packing_options(const RunConfig& config) {
  return {.slot_tokens = config.cutoff_len,
          .slots_per_step = config.slots_per_step(),
          .packing = config.packing,
          .shuffle = true,
          .seed = config.seed};
}

}  // namespace lazytrain
