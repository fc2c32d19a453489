// The data of a run, ready to be packed into steps: tokenizer and template of the model folder, tokenised
// samples, and which of them train and which evaluate.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/threads.h"
#include "data/packing.h"
#include "data/tokenized_dataset.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "training/run_config.h"

namespace lazytrain {

struct ModelText {
  Tokenizer tokenizer;
  ChatTemplate chat_template;
  std::string template_reason;                     // why this template, to be printed
  std::int64_t vocabulary = 0;                     // tokens that the model knows
  std::uint64_t files = 0;                         // hash of the files that this was read from
  std::optional<ChatTemplate> text_template = {};  // of plain text; none where no token ends a text

  [[nodiscard]] DatasetTemplates templates() const {
    return {chat_template, text_template ? &*text_template : nullptr};
  }
  // Error(model_file) where the tokenizer made a token that the model has no embedding for.
  void require_known(std::span<const std::int32_t> ids) const;
};
// `wish` names a template; not set: the folder's own, as choose_template() has it.
ModelText load_model_text(const std::string& folder, const std::optional<std::string>& wish,
                          const TemplateSettings& settings = {});
// The template that the configuration asks for. Error(usage) where template_date is no date.
ModelText load_model_text(const RunConfig& config);
// "2026-01-31", local time.
std::string today();

struct RunData {
  TokenizedDataset train;
  std::vector<std::int64_t>
      train_samples;   // of train.samples; interleaved ones in their order, some repeated
  bool mixed = false;  // they are interleaved
  // Evaluation samples: either a dataset of its own, or those of `train` that val_size put aside.
  std::optional<TokenizedDataset> eval_dataset;
  std::vector<std::int64_t> eval_samples;

  [[nodiscard]] const TokenizedSamples& eval_source() const {
    return eval_dataset ? eval_dataset->samples : train.samples;
  }
  // Of the samples, and of their order where it is more than all of them once.
  [[nodiscard]] std::uint64_t fingerprint() const;
};

// Reads, tokenises and splits what the configuration names, or takes the tokens of an earlier run from the
// cache. `notice` receives lines for the user; `colours` says whether they may have some. `stop` is asked now
// and then: true ends it with Error(interrupted).
RunData load_run_data(const RunConfig& config, const ModelText& text, ThreadPool& pool,
                      const std::function<void(const std::string&)>& notice, bool colours,
                      const std::function<bool()>& stop = {});

PackingOptions packing_options(const RunConfig& config);

}  // namespace lazytrain
