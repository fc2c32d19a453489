#include "text/metaspace.h"

#include "core/error.h"
#include "text/json_field.h"
#include "text/utf8.h"

namespace lazytrain {

MetaspaceSettings MetaspaceSettings::read(const nlohmann::json& document, const std::string& where) {
  MetaspaceSettings settings{.replacement = json_field::text(document, "replacement", where)};
  if (settings.replacement.empty() ||
      decode_utf8(settings.replacement, 0).size != settings.replacement.size())
    fail(ExitCode::model_file, "{}: 'replacement' should be one character", where);
  settings.split = json_field::boolean(document, "split", true, where);
  const bool old_prefix = json_field::boolean(document, "add_prefix_space", true, where);
  if (!old_prefix) settings.prepend = Prepend::never;
  if (json_field::find(document, "prepend_scheme") == nullptr) return settings;
  const std::string& scheme = json_field::text(document, "prepend_scheme", where);
  if (scheme == "always") {
    settings.prepend = Prepend::always;
  } else if (scheme == "first") {
    settings.prepend = Prepend::first;
  } else if (scheme == "never") {
    settings.prepend = Prepend::never;
  } else {
    fail(ExitCode::model_file, "{}: the prepend_scheme '{}' is not known", where, scheme);
  }
  if (!old_prefix && settings.prepend != Prepend::never)
    fail(ExitCode::model_file, "{}: 'add_prefix_space' and 'prepend_scheme' contradict each other", where);
  return settings;
}

}  // namespace lazytrain
