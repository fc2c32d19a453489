#include "training/moments.h"

#include <fmt/core.h>

#include <charconv>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr double kFewEmbeddings = 0.05;  // of the parameters

StateFormat format_of(const std::string& optim) {
  if (optim == "adamw_8bit" || optim == "adamw_bnb_8bit") return StateFormat::adamw_8bit;
  if (optim == "adamw_hybrid") return StateFormat::adamw_hybrid;
  return StateFormat::adamw_32bit;
}

MomentPrecision embeddings_of(const RunConfig& config, const Architecture& architecture) {
  if (config.optim_embeddings == "fp32") return MomentPrecision::fp32;
  if (config.optim_embeddings == "8bit") return MomentPrecision::eight_bit;
  const auto rows = static_cast<double>(architecture.vocab * (architecture.tied_head ? 1 : 2));
  const double part =
      rows * static_cast<double>(architecture.hidden) / static_cast<double>(parameter_count(architecture));
  return architecture.tied_head || part < kFewEmbeddings ? MomentPrecision::fp32 : MomentPrecision::eight_bit;
}

}  // namespace

MomentOptions moment_options(const RunConfig& config, const Architecture& architecture) {
  MomentOptions options{.format = format_of(config.optim)};
  if (options.format == StateFormat::adamw_32bit) return options;
  options.embeddings = embeddings_of(config, architecture);
  if (options.format == StateFormat::adamw_hybrid) options.hybrid_fraction = config.optim_hybrid_fraction;
  return options;
}

std::string to_string(const MomentOptions& options) {
  std::string text = to_string(options.format);
  if (options.format == StateFormat::adamw_32bit) return text;
  text += fmt::format(", embeddings {}", to_string(options.embeddings));
  if (options.format == StateFormat::adamw_hybrid)
    text += fmt::format(", fraction {}", options.hybrid_fraction);
  return text;
}

MomentOptions moment_options_from(const std::string& text, const std::string& where) {
  for (const StateFormat format :
       {StateFormat::adamw_32bit, StateFormat::adamw_8bit, StateFormat::adamw_hybrid}) {
    for (const MomentPrecision embeddings : {MomentPrecision::fp32, MomentPrecision::eight_bit}) {
      MomentOptions options{.format = format, .embeddings = embeddings};
      if (format == StateFormat::adamw_hybrid) {
        const std::string start =
            fmt::format("{}, embeddings {}, fraction ", to_string(format), to_string(embeddings));
        if (!text.starts_with(start)) continue;
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data() + start.size(), end, options.hybrid_fraction);
        if (parsed.ec != std::errc() || parsed.ptr != end) continue;
      }
      if (to_string(options) == text) return options;
    }
  }
  fail(ExitCode::model_file, "{}: 'optimizer' is not one of this program's", where);
}

}  // namespace lazytrain
