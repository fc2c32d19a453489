#include "formats/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <istream>
#include <streambuf>
#include <system_error>
#include <utility>

#include "core/file.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;
constexpr std::size_t kDeepest = 32;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kStandardTags = "tag:yaml.org,2002:";

// Builds the tree from the parser's events: unlike the library's own nodes, these keep every position and see
// duplicate keys, and the depth is bounded before anything recurses.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const std::string& where, ExitCode code)
      : text_(text), where_(where), code_(code) {}

  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) refuse(mark, "a second document ('---') is not supported");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(YamlNode::Kind::null, mark, "?", ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases ('*name') are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    check_closed(mark);
    add(YamlNode::Kind::scalar, mark, tag, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open_.push_back(add(YamlNode::Kind::sequence, mark, tag, ""));
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open_.push_back(add(YamlNode::Kind::mapping, mark, tag, ""));
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    fail(code_, "{}:{}:{}: {}", where_, mark.line + 1, mark.column + 1, what);
  }

  // The library takes a quote that a final newline leaves open for closed: every key behind it would silently
  // become part of the value.
  void check_closed(const YAML::Mark& mark) const {
    const auto start = static_cast<std::size_t>(mark.pos);
    if (start >= text_.size() || (text_[start] != '"' && text_[start] != '\'')) return;
    const char quote = text_[start];
    for (std::size_t i = start + 1; i < text_.size(); ++i) {
      const bool doubled = quote == '\'' && text_.substr(i).starts_with("''");
      if (doubled || (quote == '"' && text_[i] == '\\')) {
        ++i;
      } else if (text_[i] == quote) {
        return;
      }
    }
    refuse(mark, "not valid YAML: the quote that opens here is never closed");
  }

  // Puts a node into the innermost open one and gives its address, which holds until its parent gets another
  // item; by then it is closed.
  YamlNode* add(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
                const std::string& value) {
    const bool plain = tag.empty() || tag == "?";
    const bool in_quotes_or_block = tag == "!" || tag == std::string(kStandardTags) + "str";
    if (!plain && !in_quotes_or_block && !tag.starts_with(kStandardTags)) {
      refuse(mark, fmt::format("the tag {} is not supported", in_quotes(tag)));
    }
    YamlNode node;
    node.kind = kind;
    node.text = value;
    node.quoted = kind == YamlNode::Kind::scalar && in_quotes_or_block;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    if (open_.empty()) {
      root_ = std::move(node);
      return &root_;
    }
    if (open_.size() >= kDeepest) refuse(mark, fmt::format("nested deeper than {} levels", kDeepest));
    YamlNode& parent = *open_.back();
    if (parent.kind == YamlNode::Kind::mapping && parent.keys.size() == parent.items.size()) {
      add_key(parent, node, mark);
      return nullptr;
    }
    parent.items.push_back(std::move(node));
    return &parent.items.back();
  }

  void add_key(YamlNode& parent, const YamlNode& node, const YAML::Mark& mark) {
    if (node.kind != YamlNode::Kind::scalar)
      refuse(mark, "a key must be a plain word; is a bracket left open?");
    if (node.text == "<<" && !node.quoted)
      refuse(mark, "merge keys ('<<') are not supported; write the values out");
    for (const YamlKey& key : parent.keys) {
      if (key.text == node.text) {
        refuse(mark, fmt::format("the key {} stands here and on line {}; remove one of them",
                                 in_quotes(node.text), key.line));
      }
    }
    parent.keys.push_back({.text = node.text, .line = node.line, .column = node.column});
  }

  std::string_view text_;
  const std::string& where_;
  ExitCode code_;
  int documents_ = 0;
  YamlNode root_;
  std::vector<YamlNode*> open_;
};

// A stream over text that is not copied.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // only read: there is no put area
    setg(begin, begin, begin + text.size());
  }
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

const char* describe(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      return "a value";
    case YamlNode::Kind::sequence:
      return "a list";
    case YamlNode::Kind::mapping:
      return "a mapping";
  }
  return "";
}

YamlNode parse_yaml(std::string_view text, const std::string& where, ExitCode code) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.size() > kLargest)
    fail(code, "{}: {} bytes are too many for a YAML configuration; give a run.yaml", where, text.size());
  const auto refuse_at = [&](std::size_t offset, const char* what) {
    const TextPosition at = position_of(text, offset);
    fail(code, "{}:{}:{}: {}", where, at.line, at.column, what);
  };
  if (const std::size_t bad = first_invalid_utf8(text); bad != std::string_view::npos) {
    refuse_at(bad, "not UTF-8 text here; save the file as UTF-8");
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // The library takes one of these for the end of the file.
    if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
      refuse_at(i, "a control character, which YAML does not allow");
  }
  TreeBuilder builder(text, where, code);
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (error.mark.is_null()) fail(code, "{}: not valid YAML: {}; correct it there", where, error.msg);
    fail(code, "{}:{}:{}: not valid YAML: {}; correct it there", where, error.mark.line + 1,
         error.mark.column + 1, error.msg);
  }
  return builder.take_root();
}

YamlNode read_yaml(const std::filesystem::path& path, ExitCode code) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::character)
    return parse_yaml(read_stream(path, kLargest, code), path.string(), code);
  require_file(path, code);
  const MappedFile file(path);
  const std::string wrong = wrong_content(file.text().substr(0, 256), file.text().size());
  if (!wrong.empty()) fail(code, "{}: {}", path.string(), wrong);
  return parse_yaml(file.text(), path.string(), code);
}

}  // namespace lazytrain
