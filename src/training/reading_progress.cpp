#include "training/reading_progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "training/progress.h"

namespace lazytrain {
namespace {

constexpr Seconds kUnsaid = 2;  // what takes less needs no word
constexpr Seconds kRedrawEvery = 0.25;
constexpr Seconds kLineEvery = 10;

}  // namespace

ReadingProgressOptions reading_progress_options() {
  return {.terminal = progress_options(0, 0, 1).terminal};
}

ReadingProgress::ReadingProgress(ReadingProgressOptions options) : options_(std::move(options)) {
  if (!options_.clock) {
    options_.clock = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
  }
  if (!options_.output) {
    options_.output = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stderr);
      std::fflush(stderr);
    };
  }
  start_ = shown_ = options_.clock();
}

ReadingProgress::~ReadingProgress() {
  if (drawn_) options_.output("\r\x1b[K");
}

void ReadingProgress::update(std::uint64_t done, std::uint64_t all) {
  const Seconds now = options_.clock();
  if (now - start_ < kUnsaid || now - shown_ < (options_.terminal ? kRedrawEvery : kLineEvery)) return;
  shown_ = now;
  const double share = all > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(all)) : 1.0;
  const std::string left = share > 0 ? format_duration((now - start_) * (1 - share) / share) : "unknown";
  const std::string line = fmt::format("reading and tokenising: {:.0f} % of {}, {:.1f} MB/s, ETA {}",
                                       100 * share, format_bytes(Bytes{static_cast<std::int64_t>(all)}),
                                       1e-6 * static_cast<double>(done) / (now - start_), left);
  options_.output(options_.terminal ? "\r" + line + "\x1b[K" : line + "\n");
  drawn_ = options_.terminal;
}

}  // namespace lazytrain
