#include "text/vocabulary.h"

#include <utility>

#include "core/error.h"
#include "text/byte_level.h"

namespace lazytrain {

// Far above any vocabulary in use; keeps a damaged id from asking for gigabytes.
constexpr std::int64_t kMaxId = 10'000'000;

void Vocabulary::add(std::string spelling, std::int64_t id, const std::string& where) {
  if (id < 0 || id > kMaxId)
    fail(ExitCode::model_file, "{}: the token '{}' has the id {}, which is not plausible; get the file again",
         where, spelling, id);
  if (id >= std::ssize(tokens_)) tokens_.resize(static_cast<std::size_t>(id) + 1);
  Token& token = tokens_[static_cast<std::size_t>(id)];
  if (token.spelling != nullptr) {
    fail(ExitCode::model_file, "{}: the tokens '{}' and '{}' have the same id {}; get the file again", where,
         *token.spelling, spelling, id);
  }
  const auto [entry, is_new] = ids_.try_emplace(std::move(spelling), static_cast<std::int32_t>(id));
  if (!is_new) {
    fail(ExitCode::model_file, "{}: the token '{}' has two ids, {} and {}", where, entry->first,
         entry->second, id);
  }
  token.spelling = &entry->first;
  token.bytes = bytes_of_spelling(entry->first).value_or(entry->first);
}

void Vocabulary::respell(const std::function<std::string(std::int32_t, const std::string&)>& bytes_of) {
  for (std::int32_t id = 0; Token & token : tokens_) {
    if (token.spelling != nullptr) token.bytes = bytes_of(id, *token.spelling);
    ++id;
  }
}

std::optional<std::int32_t> Vocabulary::find(std::string_view spelling) const {
  const auto found = ids_.find(std::string(spelling));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Vocabulary::spelling(std::int32_t id) const {
  return id >= 0 && id < size() ? tokens_[static_cast<std::size_t>(id)].spelling : nullptr;
}

std::string_view Vocabulary::bytes(std::int32_t id) const {
  return id >= 0 && id < size() ? std::string_view(tokens_[static_cast<std::size_t>(id)].bytes)
                                : std::string_view();
}

}  // namespace lazytrain
