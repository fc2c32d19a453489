#include "optim/weight_decay.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace lazytrain {

bool weight_decay_applies(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string_view text = lower;
  for (const std::string_view fragment : {"bias", "layernorm", "rmsnorm"}) {
    if (text.find(fragment) != std::string_view::npos) return false;
  }
  for (std::string_view rest = text;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (part == "norm" || part.ends_with("_norm")) return false;
    if (dot == std::string_view::npos) return true;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace lazytrain
