#include "core/units.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "core/error.h"

namespace lazytrain {

void fail_bytes_overflow() {
  fail(ExitCode::does_not_fit,
       "a step of this model would need more bytes than can be counted; lower cutoff_len or "
       "per_device_train_batch_size, or take a smaller model");
}

const char* to_string(Tier tier) {
  switch (tier) {
    case Tier::device:
      return "device";
    case Tier::host:
      return "host";
    case Tier::disk:
      return "disk";
  }
  return "?";
}

std::string format_bytes(Bytes bytes) {
  const double magnitude = std::abs(static_cast<double>(bytes.value));
  if (magnitude < 1e3) return fmt::format("{} B", bytes.value);
  const auto value = static_cast<double>(bytes.value);
  if (magnitude < 1e6) return fmt::format("{:.1f} kB", value / 1e3);
  if (magnitude < 1e9) return fmt::format("{:.1f} MB", value / 1e6);
  if (magnitude < 1e12) return fmt::format("{:.2f} GB", value / 1e9);
  return fmt::format("{:.2f} TB", value / 1e12);
}

Bytes parse_bytes(const std::string& text, const std::string& key) {
  struct Unit {
    const char* name;
    double factor;
  };
  static constexpr std::array<Unit, 10> kUnits{{{"", 1.0},
                                                {"B", 1.0},
                                                {"kB", 1e3},
                                                {"KB", 1e3},
                                                {"MB", 1e6},
                                                {"GB", 1e9},
                                                {"TB", 1e12},
                                                {"KiB", 1024.0},
                                                {"MiB", 1048576.0},
                                                {"GiB", 1073741824.0}}};
  const char* begin = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  std::string unit(end == begin ? "?" : end);
  while (!unit.empty() && unit.front() == ' ') unit.erase(unit.begin());
  while (!unit.empty() && unit.back() == ' ') unit.pop_back();
  for (const Unit& candidate : kUnits) {
    if (unit != candidate.name) continue;
    const double bytes = number * candidate.factor;
    if (!std::isfinite(bytes) || bytes < 0 || bytes > 9e18) break;
    return {static_cast<std::int64_t>(std::llround(bytes))};
  }
  fail(ExitCode::usage,
       "{}: '{}' is not a size; write a number with B, kB, MB, GB, TB, KiB, MiB or GiB, e.g. 240MB", key,
       text);
}

std::string format_duration(Seconds seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace lazytrain
