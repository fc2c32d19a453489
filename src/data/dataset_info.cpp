#include "data/dataset_info.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "formats/json.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// One entry of dataset_info.json, with the words that open every sentence about it.
struct Entry {
  const json& value;
  std::string where;  // "data/dataset_info.json: dataset 'x'"
};

template <std::size_t N>
void refuse_unknown_keys(const json& object, const std::string& where,
                         const std::array<std::string_view, N>& known) {
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      std::string list;
      for (const std::string_view key : known) list += (list.empty() ? "" : ", ") + std::string(key);
      fail(ExitCode::data, "{}: key {} is not supported; remove it (known: {})", where, in_quotes(item.key()),
           list);
    }
  }
}

std::optional<std::string> text_of(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) fail(ExitCode::data, "{}: {} must be text", where, key);
  return found->get<std::string>();
}

const json* object_of(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  if (!found->is_object()) fail(ExitCode::data, "{}: {} must be an object", where, key);
  return &*found;
}

RecordLayout layout_of(const Entry& entry, const json* columns, const json* tags, Formatting formatting) {
  RecordLayout layout = known_layouts()[formatting == Formatting::alpaca ? 1 : 3];
  layout.usual_roles = tags == nullptr;
  layout.name = formatting == Formatting::alpaca ? "alpaca columns of dataset_info.json"
                                                 : "sharegpt columns of dataset_info.json";
  const auto set = [&](const json* object, const char* key, const char* group, std::string& value) {
    if (object == nullptr) return;
    if (auto text = text_of(*object, key, entry.where + ": " + group)) value = *text;
  };
  if (columns != nullptr) {
    const std::string where = entry.where + ": columns";
    for (const char* key : {"chosen", "rejected", "kto_tag"}) {
      if (columns->contains(key))
        fail(ExitCode::data,
             "{}: {} is for ranking datasets: only supervised fine-tuning is supported; take another one",
             where, key);
    }
    for (const char* key : {"images", "videos", "audios"}) {
      if (columns->contains(key))
        fail(ExitCode::data, "{}: {}: only text can be trained on; take a dataset without them", where, key);
    }
    refuse_unknown_keys(*columns, where,
                        std::array<std::string_view, 8>{"prompt", "query", "response", "system", "history",
                                                        "messages", "tools", "text"});
    if (const auto text = text_of(*columns, "text", where)) {
      if (columns->size() > 1)
        fail(ExitCode::data, "{}: text is learned as a whole, so no other column can be named beside it",
             where);
      layout = *std::find_if(known_layouts().begin(), known_layouts().end(),
                             [](const RecordLayout& known) { return known.formatting == Formatting::text; });
      layout.text = *text;
      layout.name = "text column of dataset_info.json";
      return layout;
    }
    // As in LLaMA-Factory: where columns are named at all, those that are not named do not exist.
    layout.query = layout.system = layout.history = layout.tools = "";
    if (formatting == Formatting::alpaca) layout.prompt = layout.response = "";
    set(columns, "prompt", "columns", layout.prompt);
    set(columns, "query", "columns", layout.query);
    set(columns, "response", "columns", layout.response);
    set(columns, "system", "columns", layout.system);
    set(columns, "history", "columns", layout.history);
    set(columns, "messages", "columns", layout.messages);
    set(columns, "tools", "columns", layout.tools);
    if (formatting == Formatting::alpaca && (layout.prompt.empty() || layout.response.empty())) {
      fail(ExitCode::data, "{}: columns must name at least prompt and response", entry.where);
    }
  }
  if (tags != nullptr) {
    const std::string where = entry.where + ": tags";
    refuse_unknown_keys(
        *tags, where,
        std::array<std::string_view, 7>{"role_tag", "content_tag", "user_tag", "assistant_tag", "system_tag",
                                        "observation_tag", "function_tag"});
    set(tags, "role_tag", "tags", layout.role_tag);
    set(tags, "content_tag", "tags", layout.content_tag);
    set(tags, "user_tag", "tags", layout.user_tag);
    set(tags, "assistant_tag", "tags", layout.assistant_tag);
    set(tags, "system_tag", "tags", layout.system_tag);
    set(tags, "observation_tag", "tags", layout.tool_tag);
    set(tags, "function_tag", "tags", layout.function_tag);
  }
  return layout;
}

DatasetSource read_entry(const std::string& name, const Entry& entry, const fs::path& dataset_dir) {
  if (!entry.value.is_object())
    fail(ExitCode::data, "{} is not an object; write {{\"file_name\": ...}}", entry.where);
  for (const char* key : {"hf_hub_url", "ms_hub_url", "om_hub_url", "script_url", "cloud_file_name"}) {
    if (entry.value.contains(key) && !entry.value.contains("file_name")) {
      fail(ExitCode::data,
           "{} has to be downloaded ({}): download it, put the JSON or JSONL file into {} and name it as "
           "file_name",
           entry.where, key, dataset_dir.string());
    }
  }
  refuse_unknown_keys(entry.value, entry.where,
                      std::array<std::string_view, 13>{
                          "file_name", "formatting", "columns", "tags", "num_samples", "file_sha1", "split",
                          "subset", "folder", "ranking", "hf_hub_url", "ms_hub_url", "om_hub_url"});
  if (const auto ranking = entry.value.find("ranking");
      ranking != entry.value.end() && *ranking != json(false)) {
    fail(ExitCode::data,
         "{} is a ranking dataset: only supervised fine-tuning is supported; take another one", entry.where);
  }
  const auto file_name = text_of(entry.value, "file_name", entry.where);
  if (!file_name || file_name->empty()) fail(ExitCode::data, "{}: file_name is missing; add it", entry.where);

  DatasetSource source{.name = name, .file = dataset_dir / *file_name, .layout = {}, .num_samples = {}};
  for (const char* key : {"split", "subset", "folder"}) {
    if (entry.value.contains(key))
      source.notices.push_back(
          fmt::format("{}: {} changes nothing: file_name is read as it stands", entry.where, key));
  }
  source.entry = entry.value.dump(-1, ' ', false, json::error_handler_t::replace);
  const json* columns = object_of(entry.value, "columns", entry.where);
  const json* tags = object_of(entry.value, "tags", entry.where);
  const auto formatting = text_of(entry.value, "formatting", entry.where);
  if (formatting && *formatting != "alpaca" && *formatting != "sharegpt" && *formatting != "openai") {
    fail(ExitCode::data, "{}: formatting is {}; use alpaca, sharegpt or openai", entry.where,
         in_quotes(*formatting));
  }
  if (formatting || columns != nullptr || tags != nullptr) {
    const bool alpaca = !formatting || *formatting == "alpaca";
    source.layout = layout_of(entry, columns, tags, alpaca ? Formatting::alpaca : Formatting::sharegpt);
    if (formatting == "openai" && tags == nullptr) {
      const RecordLayout& openai = known_layouts()[2];
      source.layout->role_tag = openai.role_tag;
      source.layout->content_tag = openai.content_tag;
      source.layout->user_tag = openai.user_tag;
      source.layout->assistant_tag = openai.assistant_tag;
      source.layout->tool_tag = openai.tool_tag;
      source.layout->function_tag = openai.function_tag;
      if (columns == nullptr || !columns->contains("messages")) source.layout->messages = openai.messages;
    }
  }
  if (const auto count = entry.value.find("num_samples"); count != entry.value.end() && !count->is_null()) {
    if (!count->is_number_integer() || *count < 1) {
      fail(ExitCode::data, "{}: num_samples must be a whole number above 0", entry.where);
    }
    source.num_samples = count->is_number_unsigned() && count->get<std::uint64_t>() > INT64_MAX
                             ? INT64_MAX
                             : count->get<std::int64_t>();
  }
  return source;
}

std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> result;
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t comma = std::min(names.find(',', at), names.size());
    std::string_view name = std::string_view(names).substr(at, comma - at);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (!name.empty()) result.emplace_back(name);
    at = comma + 1;
  }
  return result;
}

// The file as it is named, or else in dataset_dir; what stands there need not be a file.
fs::path file_of(const fs::path& path, const fs::path& dataset_dir) {
  std::error_code ignored;
  fs::path inside = dataset_dir / path;
  if (fs::is_regular_file(path, ignored)) return path;
  if (fs::is_regular_file(inside, ignored)) return inside;
  return is_missing(path) ? inside : path;
}

}  // namespace

std::vector<DatasetSource> find_datasets(const std::string& names, const fs::path& dataset_dir) {
  return find_datasets(split_names(names), dataset_dir);
}

std::vector<DatasetSource> find_datasets(const std::vector<std::string>& wanted,
                                         const fs::path& dataset_dir) {
  if (wanted.empty())
    fail(ExitCode::data, "no dataset is named: set dataset to a name in dataset_info.json or a file");
  const fs::path registry = dataset_dir / "dataset_info.json";
  json entries = json::object();
  const bool has_registry = !is_missing(registry);
  if (has_registry) entries = read_json(registry, ExitCode::data);
  if (!entries.is_object())
    fail(ExitCode::data, "{} is not an object of datasets; write {{name: {{\"file_name\": ...}}}}",
         registry.string());

  std::vector<DatasetSource> sources;
  for (const std::string& name : wanted) {
    if (const auto found = entries.find(name); found != entries.end()) {
      const Entry entry{*found, fmt::format("{}: dataset {}", registry.string(), in_quotes(name))};
      sources.push_back(read_entry(name, entry, dataset_dir));
      if (is_missing(sources.back().file)) {
        fail(ExitCode::data, "{}: its file {} does not exist; put it there or correct file_name", entry.where,
             sources.back().file.string());
      }
      require_file(sources.back().file, ExitCode::data);
      continue;
    }
    const fs::path path(name);
    const auto file = file_of(path, dataset_dir);
    if (!is_missing(file)) {
      require_file(file, ExitCode::data);
      sources.push_back({.name = name, .file = file, .layout = {}, .num_samples = {}});
      continue;
    }
    std::string known;
    std::int64_t count = 0;
    for (const auto& item : entries.items()) {
      if (++count <= 10) known += (known.empty() ? "" : ", ") + item.key();
    }
    if (count > 10) known += fmt::format(" and {} more", count - 10);
    if (has_registry) {
      fail(ExitCode::data, "dataset {} is neither a file nor in {}, which has: {}; correct the name",
           in_quotes(name), registry.string(), known.empty() ? "nothing" : known);
    }
    fail(ExitCode::data,
         "dataset {} is not a file, and there is no {} to look it up in; correct the name or dataset_dir",
         in_quotes(name), registry.string());
  }
  return sources;
}

}  // namespace lazytrain
