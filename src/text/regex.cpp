#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "core/error.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

// A match that needs more backtracking than this is a pattern gone wrong, not a long text.
constexpr std::uint32_t kMatchLimit = 5'000'000;
constexpr std::size_t kMaxPatternLength = 1 << 16;
constexpr std::size_t kMaxJitStack = std::size_t{64} << 20;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  if (pcre2_get_error_message(code, buffer.data(), buffer.size()) < 0) return "unknown error";
  return reinterpret_cast<const char*>(buffer.data());
}

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* pointer) const {
    release(pointer);
  }
};
using CodeOwner = std::unique_ptr<pcre2_code, Release<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Release<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Release<pcre2_jit_stack_free>>;

template <typename Owner>
Owner owned(typename Owner::pointer pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return Owner(pointer);
}

}  // namespace

struct Regex::Code {
  CodeOwner compiled;
  bool jit = false;
  std::string where;
};

Regex::Regex(std::string_view pattern, unsigned options, const std::string& where) {
  const auto context = owned<CompileContext>(pcre2_compile_context_create(nullptr));
  pcre2_set_max_pattern_length(context.get(), kMaxPatternLength);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  if (const std::size_t bad = find_invalid_utf8(pattern); bad != pattern.size())
    fail(ExitCode::model_file, "{}: the regular expression is not UTF-8 at byte {}; get the file again",
         where, bad);
  int error = 0;
  PCRE2_SIZE offset = 0;
  CodeOwner compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                                   &error, &offset, context.get()));
  if (compiled == nullptr) {
    fail(ExitCode::model_file, "{}: the regular expression is not valid at byte {}: {}; get the file again",
         where, offset, pcre2_message(error));
  }
  const bool jit = pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE) == 0;
  code_ = std::make_shared<const Code>(Code{.compiled = std::move(compiled), .jit = jit, .where = where});
}

Regex::Regex(std::string_view pattern, const std::string& where)
    : Regex(to_pcre2_syntax(pattern, where), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, where) {}

Regex Regex::literal(std::string_view text, const std::string& where) {
  return {text, PCRE2_UTF | PCRE2_LITERAL, where};
}

void Regex::split(std::string_view subject, std::vector<Part>& parts) const {
  const auto* text = reinterpret_cast<PCRE2_SPTR>(subject.data());
  const pcre2_code* compiled = code_->compiled.get();
  const auto context = owned<MatchContext>(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  const auto data = owned<MatchData>(pcre2_match_data_create(1, nullptr));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
  JitStack stack;

  const auto match_at = [&](std::size_t start) {
    int found = code_->jit ? pcre2_jit_match(compiled, text, subject.size(), start, PCRE2_NO_UTF_CHECK,
                                             data.get(), context.get())
                           : PCRE2_ERROR_JIT_STACKLIMIT;
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && code_->jit && stack == nullptr) {
      stack = owned<JitStack>(pcre2_jit_stack_create(std::size_t{1} << 16, kMaxJitStack, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      found = pcre2_jit_match(compiled, text, subject.size(), start, PCRE2_NO_UTF_CHECK, data.get(),
                              context.get());
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(compiled, text, subject.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          data.get(), context.get());
    }
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      fail(ExitCode::model_file,
           "{}: the regular expression gave up on a text of {} bytes ({}); get the tokenizer.json again from "
           "the model's authors",
           code_->where, subject.size(), pcre2_message(found));
    }
    return found >= 0;
  };

  std::size_t covered = 0;
  bool any = false;
  for (std::size_t start = 0; start <= subject.size() && match_at(start);) {
    const std::size_t begin = range[0], end = range[1];
    if (begin > end || begin < covered)
      fail(ExitCode::model_file, "{}: the regular expression matches backwards; get the file again",
           code_->where);
    if (begin == end && any && covered == end) {
      start = end < subject.size() ? end + decode_utf8(subject, end).size : end + 1;
      continue;
    }
    if (begin > covered) parts.push_back({covered, begin, false});
    parts.push_back({begin, end, true});
    covered = start = end;
    any = true;
  }
  if (covered < subject.size()) parts.push_back({covered, subject.size(), false});
}

}  // namespace lazytrain
