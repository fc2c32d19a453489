// lazytrain eval run.yaml [key=value ...]: loss and exact match of a model on eval_dataset.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>

#include "command_line.h"
#include "commands.h"
#include "core/log.h"
#include "data/answer.h"
#include "data/dataset.h"
#include "formats/json.h"
#include "nlohmann/json.hpp"
#include "run_setup.h"
#include "standard_output.h"
#include "training/evaluation.h"
#include "training/generation.h"
#include "training/run_data.h"
#include "training/signals.h"

namespace lazytrain {
namespace {

struct Options {
  std::string file, out, token_losses;
  std::vector<std::string> overrides;
  std::int64_t samples = -1;
  bool loss_only = false;
  const CLI::Option *out_given = nullptr, *token_losses_given = nullptr;
};

struct Problem {
  std::vector<std::int32_t> prompt;
  std::string question, reference;
};

struct EvalSet {
  TokenizedDataset dataset;
  std::vector<Problem> problems;
  std::vector<std::int64_t> used;  // of both, those that are scored
};

// Of a training set with val_size the held-out part, as training holds it out; else everything. At most
// `limit`.
void choose(EvalSet& set, const RunConfig& config, std::int64_t limit) {
  if (config.eval_dataset.empty() && config.val_size > 0) {
    set.used = split_by_group(set.dataset.samples, config.val_size, config.seed).validation;
    log::info("scored are the {} samples of {} that val_size: {} holds out; val_size=0 scores all",
              set.used.size(), set.problems.size(), config.val_size);
  } else {
    set.used.resize(set.problems.size());
    std::iota(set.used.begin(), set.used.end(), 0);
  }
  if (limit > 0 && limit < std::ssize(set.used)) set.used.resize(static_cast<std::size_t>(limit));
}

const std::vector<std::string>& scored_datasets(const RunConfig& config) {
  return config.eval_dataset.empty() ? config.dataset : config.eval_dataset;
}

EvalSet load(const RunConfig& config, const ModelText& text, std::int64_t limit, bool loss_only,
             ThreadPool& pool) {
  const std::vector<std::string>& names = scored_datasets(config);
  if (names.empty()) fail(ExitCode::usage, "eval needs eval_dataset (or dataset) to evaluate on; add it");
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
  EvalSet set;
  // Which samples are held out depends on all of them.
  const bool first_ones = limit > 0 && (config.val_size == 0 || !config.eval_dataset.empty());
  const TokenizeOptions options{.cutoff_len = config.cutoff_len,
                                .overlong = parse_overlong(config.overlong),
                                .train_on_prompt = config.train_on_prompt,
                                .max_samples = first_ones ? std::optional(limit) : config.max_samples,
                                .on_bad_sample = parse_on_bad_sample(config.on_bad_sample)};
  set.dataset = tokenize(
      find_datasets(joined, config.dataset_dir), text.templates(), options, pool, [&](Sample&& sample) {
        Problem problem;
        if (sample.whole_text) {
          if (!loss_only)
            fail(ExitCode::usage,
                 "the evaluation dataset has plain text, which asks nothing that could be answered; give "
                 "--loss-only");
          set.problems.push_back(std::move(problem));
          return;
        }
        problem.reference = sample.messages.back().content;
        sample.messages.pop_back();
        problem.question = sample.messages.back().content;
        problem.prompt =
            text.chat_template
                .render(sample.messages,
                        {.train_on_prompt = false, .add_generation_prompt = true, .tools = sample.tools})
                .ids;
        set.problems.push_back(std::move(problem));
      });
  print("{}\n", set.dataset.summary(options));
  text.require_known(std::array{set.dataset.samples.largest_id()});
  for (const Problem& problem : set.problems) text.require_known(problem.prompt);
  choose(set, config, limit);
  return set;
}

// Exact matches among the answers that came to their end.
void add_answers(nlohmann::json& report, const EvalSet& set, const std::vector<Generated>& answers,
                 const Tokenizer& tokenizer) {
  std::int64_t right = 0, none = 0, finished = 0;
  nlohmann::json details = nlohmann::json::array();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].finished) continue;
    ++finished;
    const std::string response = tokenizer.decode(answers[i].tokens, true);
    const Problem& problem = set.problems[static_cast<std::size_t>(set.used[i])];
    const auto expected = extract_answer(problem.reference), given = extract_answer(response);
    const bool equal = expected && given && equal_answers(*expected, *given);
    right += equal ? 1 : 0;
    none += given ? 0 : 1;
    details.push_back({{"question", problem.question},
                       {"reference", problem.reference},
                       {"response", response},
                       {"expected", expected.value_or("")},
                       {"answer", given.value_or("")},
                       {"right", equal}});
  }
  const auto unfinished = static_cast<std::int64_t>(answers.size()) - finished;
  const double share =
      finished == 0 ? 0.0 : 100.0 * static_cast<double>(right) / static_cast<double>(finished);
  print("exact match {:.1f} % ({} of {}; {} gave no answer{})\n", share, right, finished, none,
        unfinished > 0 ? fmt::format("; stopped before {} more were finished", unfinished) : std::string());
  report["exact_match"] = share;
  report["right"] = right;
  report["problems"] = finished;
  report["details"] = std::move(details);
}

// Ids and losses of every sample, to be held against another program's: {"samples": [{"ids", "losses"}]},
// where losses[i] is that of ids[i], null where it is not learned.
nlohmann::json token_report(const TokenizedSamples& samples, std::vector<SampleLosses> by_sample,
                            bool complete) {
  std::ranges::sort(by_sample, {}, &SampleLosses::sample);
  nlohmann::json list = nlohmann::json::array();
  for (const SampleLosses& entry : by_sample) {
    const TokenizedSample sample = samples[entry.sample];
    nlohmann::json losses = nlohmann::json::array();
    std::size_t next = 0;
    for (std::size_t i = 0; i < sample.ids.size(); ++i)
      losses.push_back(i > 0 && sample.supervised[i] != 0 ? nlohmann::json(entry.losses.at(next++))
                                                          : nlohmann::json());
    list.push_back({{"ids", sample.ids}, {"losses", std::move(losses)}});
  }
  nlohmann::json report{{"samples", std::move(list)}};
  if (!complete) report["partial"] = true;
  return report;
}

// Answers of one batch: a token costs little more for many than for one. The default value of the key is
// meant for the loss, so only another one counts here.
std::int64_t answers_at_once(const RunConfig& config) {
  constexpr std::int64_t kMany = 64;
  return config.per_device_eval_batch_size == RunConfig{}.per_device_eval_batch_size
             ? kMany
             : config.per_device_eval_batch_size;
}

std::vector<std::filesystem::path> data_files(const RunConfig& config) {
  std::vector<std::filesystem::path> files{std::filesystem::path(config.dataset_dir) / "dataset_info.json"};
  const std::vector<std::string>& names = scored_datasets(config);
  if (names.empty()) return files;
  for (const DatasetSource& source : find_datasets(names, config.dataset_dir)) files.push_back(source.file);
  return files;
}

int run(const Options& options) {
  if (options.out_given->count() > 0) require_writable(options.out, "--out");
  if (options.token_losses_given->count() > 0) require_writable(options.token_losses, "--token-losses");
  const RunConfig config = load_config(options.file, options.overrides, {{"model_name_or_path"}});
  require_apart({.run_file = options.file, .model = config.model_name_or_path, .data = data_files(config)},
                {{"--out", options.out}, {"--token-losses", options.token_losses}});
  const StopSignals signals(OnSignal::end);
  const ModelFolder model(config.model_name_or_path);
  const Architecture& architecture = model.architecture();
  require_positions(config, architecture);
  ThreadPool pool(worker_threads(config));
  const ModelText text = load_model_text(config);
  const EvalSet set = load(config, text, options.samples, options.loss_only, pool);

  GenerationRequest request{
      .prompts = {}, .max_new_tokens = config.max_new_tokens, .stop_ids = text.chat_template.stop_ids()};
  for (const std::int64_t index : set.used) {
    const Problem& problem = set.problems[static_cast<std::size_t>(index)];
    require_positions(static_cast<std::int64_t>(problem.prompt.size()), architecture);
    request.prompts.push_back(problem.prompt);
  }
  const SessionOptions session_settings =
      session_options(config, false, std::max(config.cutoff_len, generation_positions(request)));
  const LoweringContext context = lowering_context(architecture, session_settings);
  const Machine machine = machine_of(config);
  const Program loss_program = plan_evaluation(context, session_settings.type, machine,
                                               {.samples = set.dataset.samples,
                                                .used = set.used,
                                                .packing = config.packing,
                                                .slot_tokens = config.cutoff_len,
                                                .most_slots = config.per_device_eval_batch_size,
                                                .device_budget = machine.device_capacity});
  std::optional<GenerationPlan> generation;
  std::vector<const Program*> programs{&loss_program};
  if (!options.loss_only) {
    try {
      generation = plan_generation(context, machine, session_settings.type, request, answers_at_once(config));
    } catch (const Error& error) {
      if (error.code() != ExitCode::does_not_fit) throw;
      fail(error.code(), "{}, or give --loss-only to generate no answers", error.what());
    }
    programs.push_back(&generation->programs.prefill);
    programs.push_back(&generation->programs.decode);
  }
  Session session(architecture, session_settings);
  session.allocate(programs);
  session.load(model);

  std::vector<SampleLosses> by_sample;
  const EvaluationResult loss = evaluate(
      session, loss_program, set.dataset.samples, set.used, config.packing,
      [&] { return signals.requested(); }, options.token_losses.empty() ? nullptr : &by_sample);
  if (!options.token_losses.empty())
    write_json(options.token_losses, token_report(set.dataset.samples, std::move(by_sample), loss.complete));
  print("loss {:.4f} over {} supervised tokens of {} samples{}, {}\n", loss.loss, loss.supervised,
        loss.samples,
        loss.complete ? ""
                      : fmt::format(" (stopped before the other {})",
                                    set.used.size() - static_cast<std::size_t>(loss.samples)),
        format_duration(loss.seconds));
  nlohmann::json report{
      {"loss", loss.loss}, {"supervised_tokens", loss.supervised}, {"samples", loss.samples}};
  if (generation && !signals.requested()) {
    print("answering {} problems, {} at a time, at most {} new tokens each\n", request.prompts.size(),
          generation->geometry.sequences, request.max_new_tokens);
    const auto answers = generate(
        session, *generation, request,
        [](std::int64_t done, std::int64_t total) {
          if (log::terminal()) fmt::print(stderr, "\r{} of {} answered", done, total);
          if (log::terminal() && done == total) fmt::print(stderr, "\n");
        },
        [&] { return signals.requested(); });
    add_answers(report, set, answers, text.tokenizer);
  }
  // Only what was finished is in the figures.
  if (signals.requested()) report["partial"] = true;
  if (!options.out.empty()) write_json(options.out, report);
  return signals.requested() ? static_cast<int>(ExitCode::interrupted) : 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("eval", "Loss and exact match of a model on eval_dataset");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "run.yaml")->required()->check(CLI::ExistingFile);
  command->add_option("overrides", options->overrides, "key=value, as many as you like");
  command->add_option("--samples", options->samples, "evaluate only the first so many")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  options->out_given =
      command->add_option("--out", options->out, "also write the result, with every answer, as JSON");
  options->token_losses_given = command->add_option("--token-losses", options->token_losses,
                                                    "also write every token's id and loss, as JSON");
  command->add_flag("--loss-only", options->loss_only, "leave out the generation");
  command->footer("Example:\n  lazytrain eval run.yaml model_name_or_path=runs/a --samples 120\n");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
