#include "training/run_data.h"

#include <fmt/core.h>

#include <numeric>

#include "core/error.h"
#include "core/log.h"
#include "model/architecture.h"

namespace lazytrain {
namespace {

TokenizedDataset read(const std::vector<std::string>& names, const RunConfig& config, const ModelText& text,
                      ThreadPool& pool, const std::function<void(const std::string&)>& notice) {
  const TokenizeOptions options{.cutoff_len = config.cutoff_len,
                                .overlong = parse_overlong(config.overlong),
                                .train_on_prompt = config.train_on_prompt,
                                .max_samples = config.max_samples};
  TokenizedDataset dataset =
      tokenize(find_datasets(names, config.dataset_dir), text.chat_template, options, pool);
  for (std::int64_t i = 0; i < dataset.samples.size(); ++i) text.require_known(dataset.samples[i].ids);
  notice(dataset.summary(options));
  return dataset;
}

}  // namespace

void ModelText::require_known(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id < vocabulary) continue;
    fail(ExitCode::model_file,
         "{}: the token {} ('{}') lies beyond the model's vocab_size, {}: tokenizer and model do not belong "
         "together",
         tokenizer.where(), id, tokenizer.id_to_token(id).value_or(""), vocabulary);
  }
}

ModelText load_model_text(const std::string& folder, const std::optional<std::string>& wish) {
  const std::int64_t vocabulary = read_architecture(folder).vocab;
  Tokenizer tokenizer = Tokenizer::load(folder);
  if (wish) {
    ChatTemplate chat_template = ChatTemplate::named(*wish, tokenizer);
    return {std::move(tokenizer), std::move(chat_template), "named by the key `template`", vocabulary};
  }
  const DetectedTemplate detected = detect_template(folder);
  ChatTemplate chat_template = ChatTemplate::named(detected.name, tokenizer);
  return {std::move(tokenizer), std::move(chat_template), detected.reason, vocabulary};
}

RunData load_run_data(const RunConfig& config, const ModelText& text, ThreadPool& pool,
                      const std::function<void(const std::string&)>& notice, bool colours) {
  notice(fmt::format("template {}: {}", text.chat_template.name(), text.template_reason));
  RunData data{.train = read(config.dataset, config, text, pool, notice),
               .train_samples = {},
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
  if (!config.eval_dataset.empty()) {
    data.eval_dataset = read(config.eval_dataset, config, text, pool, notice);
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
