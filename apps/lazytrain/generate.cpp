// lazytrain generate MODEL --prompt "...": greedy answers, weights streamed where the device is too small.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

#include "commands.h"
#include "core/log.h"
#include "core/threads.h"
#include "run_setup.h"
#include "standard_output.h"
#include "training/generation.h"
#include "training/run_data.h"
#include "training/signals.h"

namespace lazytrain {
namespace {

struct Options {
  std::string model, template_name, thinking, device_memory;
  std::vector<std::string> prompts;
  std::int64_t max_new_tokens = 256;
  int threads = 0;
  bool fp32 = false, raw = false;
};

// All lines of standard input; a signal ends the waiting for more.
std::vector<std::string> standard_input_lines(const StopSignals& signals) {
  std::string text;
  while (!signals.requested()) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    // A signal that comes right before poll() does not wake it, so it never waits for long.
    if (poll(&input, 1, 100) <= 0) continue;
    std::array<char, 65536> piece{};
    const ssize_t size = read(STDIN_FILENO, piece.data(), piece.size());
    if (size < 0 && errno != EINTR && errno != EAGAIN)
      fail(ExitCode::usage, "standard input: cannot read it: {}", std::strerror(errno));
    if (size == 0) break;
    if (size > 0) text.append(piece.data(), static_cast<std::size_t>(size));
  }
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

int run(const Options& options) {
  RunConfig config;
  config.model_name_or_path = options.model;
  config.bf16 = !options.fp32;
  config.fp32 = options.fp32;
  if (options.threads > 0) config.threads = options.threads;
  if (!options.device_memory.empty()) {
    config.memory_model = "emulated";
    config.device_memory = parse_bytes(options.device_memory, "--device-memory");
  }
  const StopSignals signals(OnSignal::end);
  const ModelFolder model(options.model);
  TemplateSettings settings;
  if (!options.thinking.empty()) settings.enable_thinking = options.thinking == "true";
  const ModelText text = load_model_text(
      options.model, options.template_name.empty() ? std::nullopt : std::optional(options.template_name),
      settings);
  std::vector<std::string> prompts = options.prompts;
  if (prompts.empty()) {
    for (std::string& line : standard_input_lines(signals))
      if (!line.empty()) prompts.push_back(std::move(line));
    if (signals.requested()) return static_cast<int>(ExitCode::interrupted);
  }
  if (prompts.empty()) fail(ExitCode::usage, "no prompt; give --prompt TEXT or one a line on standard input");
  GenerationRequest request{
      .prompts = {}, .max_new_tokens = options.max_new_tokens, .stop_ids = text.chat_template.stop_ids()};
  for (const std::string& prompt : prompts) {
    const std::vector<Message> conversation{{.role = Role::user, .content = prompt}};
    request.prompts.push_back(
        options.raw ? text.tokenizer.encode(prompt, {.add_special_tokens = true})
                    : text.chat_template
                          .render(conversation, {.train_on_prompt = false, .add_generation_prompt = true})
                          .ids);
    text.require_known(request.prompts.back());
    require_positions(static_cast<std::int64_t>(request.prompts.back().size()), model.architecture());
    if (request.prompts.back().empty())
      fail(ExitCode::usage, "the prompt '{}' has no tokens; write one that has", prompt);
  }
  const SessionOptions session_settings = session_options(config, false, generation_positions(request));
  const LoweringContext context = lowering_context(model.architecture(), session_settings);
  const GenerationPlan plan = plan_generation(context, machine_of(config), session_settings.type, request);
  Session session(model.architecture(), session_settings);
  const Program* programs[] = {&plan.programs.prefill, &plan.programs.decode};
  session.allocate(programs);
  session.load(model);
  const auto answers = generate(session, plan, request, {}, [&] { return signals.requested(); });
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers.size() > 1) print("> {}\n", prompts[i]);
    print("{}\n", text.tokenizer.decode(answers[i].tokens, true));
  }
  return signals.requested() ? static_cast<int>(ExitCode::interrupted) : 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("generate", "Answer prompts with a model, greedily");
  const auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "model folder")->required()->check(CLI::ExistingDirectory);
  command
      ->add_option("--prompt,-p", options->prompts,
                   "what the user says; may be repeated (default: standard input, one a line)")
      ->allow_extra_args(false);  // one text each, as it stands: no list in brackets
  command->add_option("--max-new-tokens", options->max_new_tokens, "length limit")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--template", options->template_name, "chat template (default: the folder's own)");
  command
      ->add_option("--enable-thinking", options->thinking,
                   "what a template of the folder is told of this name")
      ->check(CLI::IsMember({"true", "false"}));
  command->add_option("--device-memory", options->device_memory, "emulate a device of this size, e.g. 240MB");
  command->add_option("--threads", options->threads, "threads (default: all cores)")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--fp32", options->fp32, "fp32 instead of bf16");
  command->add_flag("--raw", options->raw, "continue the text itself, without a chat template");
  command->footer(
      "Example:\n  lazytrain generate runs/a -p \"Ann has 3 apples and buys 4. How many has she?\"\n");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
