#include "training/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/log.h"

namespace lazytrain {
namespace {

constexpr int kLargestBar = 30;
constexpr int kSmallestBar = 8;

Seconds monotonic() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void to_standard_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

ProgressOptions progress_options(std::int64_t total_steps, std::int64_t steps_done, std::int64_t line_every) {
  ProgressOptions options{.total_steps = total_steps, .steps_done = steps_done, .line_every = line_every};
  const char* term = std::getenv("TERM");
  options.terminal = isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
  options.colours = log::terminal();
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.width = size.ws_col;
  return options;
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)), step_(options_.steps_done) {
  if (!options_.clock) options_.clock = monotonic;
  if (!options_.output) options_.output = to_standard_error;
  start_ = options_.clock();
}

Progress::~Progress() {
  if (drawn_) options_.output("\n");
}

void Progress::start() {
  if (options_.terminal) draw();
}

void Progress::step(const StepProgress& step) {
  last_ = step;
  ++step_;
  ++session_steps_;
  tokens_ += step.tokens;
  slots_ += step.slots;
  step_seconds_ += step.seconds;
  if (options_.terminal) {
    draw();
  } else if (step_ == options_.total_steps || step_ % std::max<std::int64_t>(1, options_.line_every) == 0) {
    options_.output(fmt::format("step {}/{}  {}\n", step_, options_.total_steps, figures()));
  }
}

void Progress::message(std::string_view text) {
  const bool redraw = drawn_;
  clear();
  options_.output(fmt::format("{}\n", text));
  if (redraw) draw();
}

Seconds Progress::elapsed() const {
  return options_.clock() - start_;
}

std::optional<Seconds> Progress::remaining() const {
  if (session_steps_ == 0) return std::nullopt;
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.total_steps - step_));
  return elapsed() / static_cast<double>(session_steps_) * left;
}

double Progress::tokens_per_second() const {
  return step_seconds_ > 0 ? static_cast<double>(tokens_) / step_seconds_ : 0.0;
}

double Progress::slots_per_second() const {
  return step_seconds_ > 0 ? static_cast<double>(slots_) / step_seconds_ : 0.0;
}

std::string Progress::figures() const {
  if (session_steps_ == 0) return "ETA unknown";
  return fmt::format("loss {:.4f}  lr {:.2e}  {:.0f} tok/s  {:.2f} slots/s  ETA {}", last_.loss, last_.lr,
                     tokens_per_second(), slots_per_second(), format_duration(remaining().value_or(0)));
}

void Progress::clear() {
  if (drawn_) options_.output("\r\x1b[K");
  drawn_ = false;
}

void Progress::draw() {
  const double share =
      options_.total_steps > 0
          ? std::clamp(static_cast<double>(step_) / static_cast<double>(options_.total_steps), 0.0, 1.0)
          : 1.0;
  std::string head = fmt::format("step {}/{} ", step_, options_.total_steps);
  std::string tail = fmt::format(" {:3.0f} %  {}", 100 * share, figures());
  const auto columns = static_cast<std::size_t>(std::max(1, options_.width - 1));
  // The bar takes what the figures leave; a narrow terminal loses the bar, then the end of the line, but
  // never wraps: a wrapped line could not be redrawn.
  const auto used = static_cast<int>(head.size() + tail.size()) + 2;
  const int cells = std::min(kLargestBar, static_cast<int>(columns) - used);
  std::string bar;
  if (cells >= kSmallestBar) {
    const auto full = static_cast<std::size_t>(share * cells);
    bar = '[' + std::string(full, '#') + std::string(static_cast<std::size_t>(cells) - full, '.') + ']';
  } else if (head.size() + tail.size() > columns) {
    tail.resize(columns > head.size() ? columns - head.size() : 0);
    head.resize(std::min(head.size(), columns));
  }
  if (options_.colours && !bar.empty()) bar = "\x1b[32m" + bar + "\x1b[0m";
  options_.output("\r" + head + bar + tail + "\x1b[K");
  drawn_ = true;
}

}  // namespace lazytrain
