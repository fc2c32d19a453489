// Streaming the records of a large dataset file: one JSON array of records, or JSONL with one record a line,
// told apart by content. The file is mapped, one record at a time is found and parsed, and pages behind it
// are given back, so memory does not grow with the file. Finding records is for one thread; parsing them,
// which takes most of the time, may be done by many.
//
// A UTF-8 byte-order mark is accepted. Lone surrogates (\ud83c without its partner) and invalid UTF-8 become
// U+FFFD and are counted; surrogate pairs become the one character they mean. A bad line of JSONL is handed
// out with its reason and the stream goes on; in an array the end of a bad record is not known, so it ends
// the stream with an error. Faults of the file as a whole are Error(data) with file, line and column.
//
// Include <nlohmann/json.hpp> in the .cpp that looks inside the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/file.h"

namespace lazytrain {

struct JsonRecord {
  std::int64_t line = 0;                          // 1-based, where the record starts
  std::string_view text;                          // as it lies in the file; valid as long as the stream,
  std::shared_ptr<const void> owner = {};         // or, where it does not lie there, as long as this
  std::int64_t replaced = 0;                      // characters that became U+FFFD
  std::string reason;                             // empty where the record is good
  std::int64_t fault_line = 0, fault_column = 0;  // where a bad record's fault shows, counted in the record
  [[nodiscard]] bool good() const { return reason.empty(); }
};

// Sets the value that the record's text means, or the reason why it means none. Any number of threads.
void parse_record(JsonRecord& record, nlohmann::json& value);

class JsonStream {
 public:
  enum class Layout { array, lines };
  // A longer record is refused: it is a damaged file rather than a sample.
  static constexpr std::size_t kLongestRecord = std::size_t{64} << 20;

  explicit JsonStream(const std::filesystem::path& path);

  [[nodiscard]] Layout layout() const { return layout_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return text_.size(); }   // bytes of the file
  [[nodiscard]] std::uint64_t position() const { return position_; }  // bytes behind us, for progress

  // The next record and its value (null where the record is bad). False at the end of the file.
  // Blank lines are no records.
  bool next(JsonRecord& record, nlohmann::json& value);

  // The same in two halves: the next record's text, and its value. find() is bad only for lines that are too
  // long; parse() may run on several threads at once.
  bool find(JsonRecord& record);
  void parse(JsonRecord& record, nlohmann::json& value) const;
  // "file:line:column: ..." of a bad record, as an Error(data).
  [[noreturn]] void fail_bad(const JsonRecord& record, const std::string& advice) const;

 private:
  bool find_line(JsonRecord& record);
  bool find_element(JsonRecord& record);
  void skip_space();
  void advance(std::size_t to);
  [[nodiscard]] std::size_t element_end() const;
  [[noreturn]] void fail_at(std::size_t offset, const std::string& what) const;

  std::filesystem::path path_;
  MappedFile map_;
  std::string_view text_;
  Layout layout_ = Layout::lines;
  std::size_t position_ = 0;
  std::size_t released_ = 0;  // pages before this were given back
  std::int64_t line_ = 1;     // of position_
  bool first_ = true;         // no element of the array has been read
  bool finished_ = false;
};

}  // namespace lazytrain
