// Errors of templates with their places, and templates that mean harm.
#include "text/jinja.h"

#include <gmock/gmock.h>

#include <string>

#include "core/file.h"
#include "core/random.h"
#include "jinja_support.h"
#include "small_tokenizer.h"

namespace lazytrain::testing {
namespace {

using ::testing::HasSubstr;

std::string many(std::size_t count, const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

// The error with which a template ends: reading it, or running it.
std::string fault_of(const std::string& source, ExitCode code, const std::string& variables = "{}") {
  return error_of(code, [&] { rendered(source, variables); });
}

TEST(Jinja, ErrorsOfTheSourceNameLineAndColumn) {
  const auto fault = [](const std::string& source) { return fault_of(source, ExitCode::model_file); };
  EXPECT_EQ(fault("a\n {% if x %}b"), "t:2:2: the block is never closed with {% endif %}");
  EXPECT_EQ(fault("{{ x | nope }}"), "t:1:8: the filter 'nope' is not known");
  EXPECT_EQ(fault("{{ x is nope }}"), "t:1:9: the test 'nope' is not known");
  EXPECT_EQ(fault("{{ 1 + }}"), "t:1:8: '}}' stands where a value should be");
  EXPECT_EQ(fault("\n\n{{ (1 }}"), "t:3:7: '}' closes nothing that is open");
  EXPECT_EQ(fault("{{ 'abc }}"), "t:1:4: the text is never closed with its quote");
  EXPECT_EQ(fault("{% endfor %}"), "t:1:1: the statement 'endfor' is not known here");
  EXPECT_EQ(fault("{% for a in b %}{% macro f() %}{% endmacro %}{% endfor %}"),
            "t:1:17: a macro inside of a for, set, with, filter or macro block is not supported");
  EXPECT_EQ(fault("{% for a in b recursive %}{% endfor %}"),
            "t:1:15: recursive for blocks are not supported");
  EXPECT_EQ(fault("{{ f(*a) }}"), "t:1:6: arguments with * or ** are not supported");
  EXPECT_EQ(fault("{{ 99999999999999999999 }}"), "t:1:4: the number is too large");
  EXPECT_EQ(fault("{% set x | trim is not string %}{% endset %}"),
            "t:1:17: 'is' stands where '%}' should be");
  EXPECT_EQ(fault("{% filter trim is string %}{% endfilter %}"), "t:1:16: 'is' stands where '%}' should be");
  EXPECT_EQ(fault("a\xff"), "t:1:2: the template is not UTF-8 text");
}

TEST(Jinja, ErrorsOfARunNameLineAndColumn) {
  const auto fault = [](const std::string& source) { return fault_of(source, ExitCode::data); };
  EXPECT_EQ(fault("a\n{{ x.y }}"), "t:2:5: 'x' is undefined");
  EXPECT_EQ(fault("{{ {}.a.b }}"), "t:1:8: the key 'a' is undefined");
  EXPECT_EQ(fault("{{ 'a' + 1 }}"), "t:1:8: a text and a whole number cannot be combined by +");
  EXPECT_EQ(fault("{{ 'a'.nope() }}"), "t:1:12: a text has no method 'nope'");
  EXPECT_EQ(fault("{% for a in 1 %}{% endfor %}"), "t:1:1: a whole number cannot be gone through");
  EXPECT_EQ(fault("{{ raise_exception('no\nway') }}"),
            "t:1:19: the template refuses the conversation: no?way");
  EXPECT_EQ(fault("{{ 9223372036854775807 + 1 }}"), "t:1:24: the number grows too large");
}

TEST(Jinja, EndlessWorkIsStopped) {
  constexpr const char* kStopped =
      "the template takes too many steps or makes too much text; name another with the key `template`";
  for (const std::string source : {
           "{% for a in range(1000000000000) %}{% endfor %}",
           "{% for a in range(9223372036854775807) %}{% endfor %}",
           "{% for a in range(0, -9223372036854775807, -4) %}{% endfor %}",
           "{% for a in range(9000) %}{% for b in range(9000) %}{% for c in range(9000) %}{% endfor %}{% "
           "endfor %}{% endfor %}",
           "{{ 'a' * 1000000000000 }}",
           "{{ ('a' * 1000) * 9223372036854775807 }}",
           "{{ [0] * 1000000000000 }}",
           "{% set ns = namespace(t='a') %}{% for i in range(90) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
           "{% set ns = namespace(t=['a']) %}{% for i in range(90) %}{% set ns.t = ns.t + ns.t %}{% endfor "
           "%}",
           "{% set ns = namespace(t='a') %}{% for i in range(90) %}{% set ns.t %}{{ ns.t }}{{ ns.t }}{% "
           "endset %}{% endfor %}",
           "{% set ns = namespace(t='a') %}{% for i in range(90) %}{% set ns.t = ns.t | replace('a', "
           "'aaaaaaaa') %}{% endfor %}",
           "{% set ns = namespace(t='a,b') %}{% for i in range(90) %}{% set ns.t = (ns.t ~ ns.t).split(',') "
           "| join(',') %}{% endfor %}",
           "{% set ns = namespace(t=['a']) %}{% for i in range(90) %}{% set ns.t = [ns.t, ns.t] | tojson "
           "%}{% endfor %}",
           "{{ ('a' * 9000).replace('', 'b' * 9000) }}",
           "{{ (('a\n' * 90000) | indent(4096)) }}",
           "{{ 'a'.ljust(1000000000000) }}",
           "{{ [1] | batch(1000000000000, 'x') | list }}",
           "{{ (range(90000) | list) | unique | list }}",
           "{% for a in range(90000) %}{{ 'a' * 9000 }}{% endfor %}",
           "{% macro f(n) %}{{ n }}{% if n < 300 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% endmacro %}{{ "
           "f(260) }}",
       }) {
    EXPECT_THAT(fault_of(source, ExitCode::model_file), HasSubstr(kStopped)) << source;
  }
}

TEST(Jinja, DepthIsBounded) {
  for (const std::string& source : {
           "{{ " + many(100000, "(") + "1" + many(100000, ")") + " }}",
           "{{ " + many(100000, "[") + many(100000, "]") + " }}",
           "{{ " + many(100000, "{'a':") + "1" + many(100000, "}") + " }}",
           "{{ " + many(100000, "-") + "1 }}",
           "{{ " + many(100000, "not ") + "1 }}",
           "{{ 1" + many(100000, " + 1") + " }}",
           "{{ x" + many(100000, ".a") + " }}",
           "{{ x" + many(100000, "[0]") + " }}",
           "{{ x" + many(100000, "()") + " }}",
           "{{ x" + many(100000, " | trim") + " }}",
           "{{ 1" + many(50000, " if 1 else 1") + " }}",
           "{{ " + many(50000, "x(") + many(50000, ")") + " }}",
           many(50000, "{% if 1 %}"),
           many(50000, "{% for a in b %}"),
           "{{ 1 is eq " + many(50000, "[") + many(50000, "]") + " }}",
       }) {
    EXPECT_THAT(fault_of(source, ExitCode::model_file), HasSubstr("nested deeper than 200 levels"))
        << source.substr(0, 40);
  }
  EXPECT_THAT(fault_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ExitCode::model_file),
              HasSubstr("calls itself too deeply"));
  EXPECT_THAT(
      fault_of("{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{% if 1 %}{% for a in [1] %}{{ [f()] }}"
               "{% endfor %}{% endif %}{% endmacro %}{{ g() }}",
               ExitCode::model_file),
      HasSubstr("calls itself too deeply"));
  EXPECT_THAT(
      fault_of("{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}",
               ExitCode::data),
      HasSubstr("nested deeper than 256 levels"));
  EXPECT_THAT(
      fault_of(
          "{% set n = namespace(x={}) %}{% for i in range(9999) %}{% set n.x = {'a': n.x} %}{% endfor %}",
          ExitCode::data),
      HasSubstr("nested deeper than 256 levels"));
}

TEST(Jinja, NothingCanReachItselfOrChangeAConversation) {
  for (const std::string source :
       {"{% set n = namespace() %}{% set n.n = n %}", "{% set n = namespace() %}{% set n.n = [{'a': n}] %}",
        "{% set n = namespace() %}{{ namespace(n=n) }}",
        "{% set n = namespace() %}{% for a in [1] %}{% set n.l = loop %}{% endfor %}"})
    EXPECT_THAT(fault_of(source, ExitCode::data), HasSubstr("a namespace cannot hold a namespace or a loop"));
  EXPECT_THAT(fault_of("{{ l.append(1) }}", ExitCode::model_file, R"({"l": []})"),
              HasSubstr("would change a list"));
  EXPECT_THAT(fault_of("{{ d.update({'a': 1}) }}", ExitCode::model_file, R"({"d": {}})"),
              HasSubstr("would change a mapping"));
}

TEST(Jinja, TheDateIsGiven) {
  const auto now = [](const std::string& format) {
    return jinja::Template::parse("{{ strftime_now('" + format + "') }}", "t")
        .render({}, std::time_t{1'700'000'000})
        .bytes();
  };
  EXPECT_EQ(now("%Y"), "2023");
  EXPECT_THAT(now("%d %b %Y"), HasSubstr(" Nov 2023"));
  EXPECT_EQ(rendered("{{ strftime_now is defined }}"), "True");
}

// Marks go where the bytes go, through all that texts can be put through.
// Sequences that filters make from what is none: they live as long as the filter walks them.
TEST(Jinja, FiltersWalkTextsAndMappings) {
  EXPECT_EQ(rendered("{{ 'a1b2'|select|join('-') }}"), "a-1-b-2");
  EXPECT_EQ(rendered("{{ 'abab'|unique|join }}"), "ab");
  EXPECT_EQ(rendered("{{ 'abc'|batch(2)|list|length }}"), "2");
  EXPECT_EQ(rendered("{{ {'a': 2, 'b': 4}|unique|join }}"), "ab");
  EXPECT_EQ(rendered("{{ nothing|selectattr('role')|list }}"), "[]");
}

TEST(Jinja, TextKeepsItsMarks) {
  const auto marks = [](const std::string& source) {
    const Mark answer{.source = Source::answer, .turn = 3};
    const jinja::Template::Variables variables{{"a", jinja::Value::text("Ab cd", answer)}};
    const MarkedText text = jinja::Template::parse(source, "t").render(variables, 0);
    std::string result;
    std::size_t begin = 0;
    for (const MarkRun& run : text.runs()) {
      const std::string part = text.bytes().substr(begin, run.end - begin);
      result += run.mark == answer ? "[" + part + "]" : part;
      begin = run.end;
    }
    return result;
  };
  EXPECT_EQ(marks("x{{ a }}y"), "x[Ab cd]y");
  EXPECT_EQ(marks("{{ 'x' + a[1:4] ~ 'y' }}"), "x[b c]y");
  EXPECT_EQ(marks("{{ a.split(' ') | join('-') }}"), "[Ab]-[cd]");
  EXPECT_EQ(marks("{{ a | upper }}{{ a.title() }}{{ a[::-1] }}{{ a[0] }}"), "[AB CDAb Cddc bAA]");
  EXPECT_EQ(marks("{{ (' ' ~ a ~ ' ') | trim }}"), "[Ab cd]");
  EXPECT_EQ(marks("{{ a | replace(' ', '_') }}"), "[Ab]_[cd]");
  EXPECT_EQ(marks("{{ 'x_y' | replace('_', a) }}"), "x[Ab cd]y");
  EXPECT_EQ(marks("{{ {'k': a} | tojson }}"), "{\"k\": \"[Ab cd]\"}");
  EXPECT_EQ(marks("{{ [a] }}"), "['[Ab cd]']");
  EXPECT_EQ(marks("{% set b %}<{{ a }}>{% endset %}{{ b | indent }}"), "<[Ab cd]>");
  EXPECT_EQ(marks("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(a) }}"), "([Ab cd])");
  EXPECT_EQ(marks("{{ a.partition(' ')[2] }}{{ a.removeprefix('A') }}{{ a | first }}"), "[cdb cdA]");
  EXPECT_EQ(marks("{% for c in a %}{{ c }},{% endfor %}"), "[A],[b],[ ],[c],[d],");
  EXPECT_EQ(marks("{{ '%s' ~ (a | string | list | join) }}"), "%s[Ab cd]");
  EXPECT_EQ(marks("{{ (a ~ '\"') | tojson }}{{ '&' ~ a | escape }}"), "\"[Ab cd]\\\"\"&[Ab cd]");
}

// Damaged templates end in a text or in one sentence.
TEST(Jinja, MutatedTemplatesNeverCrash) {
  constexpr int kRounds = 1000;
  const std::string variables =
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>b</think>c"}],
          "tools": [{"name": "f", "x": [1, 2.5, null, true]}], "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})";
  Random random(11);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random.below(bound)); };
  int texts = 0, errors = 0;
  for (const std::string name : {"thinking", "headers", "inst", "turns", "marked"}) {
    const std::string source = read_file(kTextData / "chat_templates" / (name + ".jinja"));
    for (int round = 0; round < kRounds; ++round) {
      std::string damaged = source;
      for (std::size_t i = 0, count = 1 + below(3); i < count; ++i) {
        const std::size_t at = below(damaged.size());
        const std::string piece = source.substr(below(source.size()), 1 + below(12));
        switch (below(4)) {
          case 0:
            damaged[at] = "{}%#-|'\"()[].,:+~ \n0a"[below(21)];
            break;
          case 1:
            damaged.erase(at, 1 + below(8));
            break;
          case 2:
            damaged.insert(at, piece);
            break;
          default:
            damaged.replace(at, std::min(piece.size(), damaged.size() - at), piece);
        }
        if (damaged.empty()) damaged = " ";
      }
      try {
        rendered(damaged, variables);
        ++texts;
      } catch (const Error&) {
        ++errors;
      }
    }
  }
  EXPECT_EQ(texts + errors, 5 * kRounds);
  EXPECT_GT(texts, 200);
  EXPECT_GT(errors, 200);
}

}  // namespace
}  // namespace lazytrain::testing
