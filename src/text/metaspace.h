// The settings of Metaspace, which writes spaces as a letter of their own; pre-tokenizer and decoder share
// them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lazytrain {

struct MetaspaceSettings {
  enum class Prepend { always, first, never };
  std::string replacement;  // one code point
  Prepend prepend = Prepend::always;
  bool split = true;

  // Also in the spelling of old files (`add_prefix_space`). Throws Error(model_file), naming `where`.
  static MetaspaceSettings read(const nlohmann::json& document, const std::string& where);
};

}  // namespace lazytrain
