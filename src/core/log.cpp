#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "core/printable.h"

namespace lazytrain::log {
namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto created = spdlog::stderr_color_mt(
        "lazytrain", terminal() ? spdlog::color_mode::always : spdlog::color_mode::never);
    created->set_pattern("%^%v%$");
    return created;
  }();
  return *instance;
}

}  // namespace

bool terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && std::getenv("NO_COLOR") == nullptr && term != nullptr &&
         std::string_view(term) != "dumb";
}

void write(Level level, const std::string& message) {
  switch (level) {
    case Level::debug:
      logger().debug("{}", printable_text(message));
      return;
    case Level::info:
      logger().info("{}", printable_text(message));
      return;
    case Level::warning:
      logger().warn("warning: {}", printable_line(message));
      return;
    case Level::error:
      logger().error("error: {}", printable_line(message));
      return;
  }
}

void set_level(Level lowest_shown) {
  switch (lowest_shown) {
    case Level::debug:
      logger().set_level(spdlog::level::debug);
      return;
    case Level::info:
      logger().set_level(spdlog::level::info);
      return;
    case Level::warning:
      logger().set_level(spdlog::level::warn);
      return;
    case Level::error:
      logger().set_level(spdlog::level::err);
      return;
  }
}

}  // namespace lazytrain::log
