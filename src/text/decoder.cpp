#include "text/decoder.h"

#include <utility>

#include "core/error.h"
#include "text/byte_level.h"
#include "text/byte_token.h"
#include "text/json_field.h"
#include "text/metaspace.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

using nlohmann::json;

std::uint64_t count_of(const json& document, const char* key, const std::string& where) {
  const json& value = json_field::need(document, key, where);
  if (!value.is_number_unsigned())
    fail(ExitCode::model_file, "{}: '{}' should be a whole number, zero or more", where, key);
  return value.get<std::uint64_t>();
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t copied = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, copied)) {
    result.append(text, copied, at - copied).append(to);
    copied = at + from.size();
  }
  if (copied > 0) text = result.append(text, copied);
}

// Tokens of bytes in a row become text where together they are UTF-8, else one U+FFFD each.
void join_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (find_invalid_utf8(bytes) == bytes.size()) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      bytes.push_back(static_cast<char>(*byte));
    } else {
      flush();
      result.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(result);
}

}  // namespace

Decoder::Decoder(const json& document, bool byte_level, const std::string& where) {
  if (document.is_null()) {
    fail(
        ExitCode::model_file,
        "{} is missing, which is not supported (ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip and "
        "Sequence are)",
        where);
  }
  add(document, byte_level, where);
  if (byte_level) return;
  if (steps_.empty()) fail(ExitCode::model_file, "{}: has no steps, which is not supported", where);
}

void Decoder::add(const json& document, bool byte_level, const std::string& where) {
  const std::string& type = json_field::type(document, where);
  if (type == "Sequence") {
    const json& list = json_field::need(document, "decoders", where);
    if (!list.is_array() || list.empty())
      fail(ExitCode::model_file, "{}: 'decoders' should be an array of decoders", where);
    if (byte_level && list.size() > 1)
      fail(ExitCode::model_file,
           "{}: more than one step after a ByteLevel pre_tokenizer is not supported; choose a model with "
           "another tokenizer",
           where);
    for (const json& item : list) add(item, byte_level, where);
    return;
  }
  if (byte_level) {
    if (type == "ByteLevel") return;
    fail(ExitCode::model_file,
         "{}: the type '{}' is not supported after a ByteLevel pre_tokenizer (ByteLevel is); choose a model "
         "with another tokenizer",
         where, type);
  }
  if (type == "Metaspace") {
    MetaspaceSettings settings = MetaspaceSettings::read(document, where);
    steps_.emplace_back(Metaspace{.replacement = std::move(settings.replacement),
                                  .drops_first = settings.prepend != MetaspaceSettings::Prepend::never});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Fuse") {
    steps_.emplace_back(Fuse{});
  } else if (type == "Replace") {
    steps_.emplace_back(Replacement::read(document, where));
  } else if (type == "Strip") {
    const std::string& content = json_field::text(document, "content", where);
    if (content.empty() || decode_utf8(content, 0).size != content.size())
      fail(ExitCode::model_file, "{}: the 'content' of a Strip should be one character", where);
    steps_.emplace_back(Strip{.content = content,
                              .start = count_of(document, "start", where),
                              .stop = count_of(document, "stop", where)});
  } else {
    fail(ExitCode::model_file,
         "{}: the type '{}' is not supported{} (Metaspace, Replace, ByteFallback, Fuse, Strip and Sequence "
         "are); choose a model with another tokenizer",
         where, type, type == "ByteLevel" ? ", as pre_tokenizer has no ByteLevel step" : "");
  }
}

void Decoder::run(const Step& step, std::vector<std::string>& tokens) {
  if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], metaspace->replacement, i == 0 && metaspace->drops_first ? "" : " ");
  } else if (std::holds_alternative<ByteFallback>(step)) {
    join_bytes(tokens);
  } else if (std::holds_alternative<Fuse>(step)) {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, std::move(all));
  } else if (const auto* replacement = std::get_if<Replacement>(&step)) {
    for (std::string& token : tokens)
      if (auto other = replacement->apply(token, nullptr)) token = std::move(*other);
  } else {
    const Strip& strip = std::get<Strip>(step);
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::uint64_t i = 0; i < strip.start && rest.starts_with(strip.content); ++i)
        rest.remove_prefix(strip.content.size());
      for (std::uint64_t i = 0; i < strip.stop && rest.ends_with(strip.content); ++i)
        rest.remove_suffix(strip.content.size());
      token = std::string(rest);
    }
  }
}

std::string Decoder::join(std::vector<std::string> tokens) const {
  std::string result;
  check(!steps_.empty(), "bytes are joined without a decoder");
  for (const Step& step : steps_) run(step, tokens);
  for (const std::string& token : tokens) result += token;
  return replace_invalid_utf8(result);
}

std::string Decoder::bytes(const std::string& token) const {
  if (steps_.empty()) return bytes_of_spelling(token).value_or(token);
  std::vector<std::string> tokens = {token};
  for (const Step& step : steps_) {
    if (std::holds_alternative<Strip>(step)) continue;  // it is about the ends of a whole text
    if (std::holds_alternative<ByteFallback>(step)) {
      if (const auto byte = byte_of_token(tokens.front())) return {static_cast<char>(*byte)};
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      replace_all(tokens.front(), metaspace->replacement, " ");
    } else {
      run(step, tokens);
    }
  }
  return std::move(tokens.front());
}

}  // namespace lazytrain
