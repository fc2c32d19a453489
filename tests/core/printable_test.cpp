// Text of unknown origin before it reaches a terminal, and sizes beyond 64 bits.
#include "core/printable.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/units.h"

namespace lazytrain {
namespace {

TEST(Printable, Utf8Stays) {
  EXPECT_EQ(printable_line("Käse, 数学, 😀"), "Käse, 数学, 😀");
  EXPECT_EQ(printable_line(""), "");
}

TEST(Printable, WhatSteersATerminalGoes) {
  EXPECT_EQ(printable_line("a\x1b[31mred\nb\tc\x7f"), "a?[31mred?b?c?");
  EXPECT_EQ(printable_line("c1 \xC2\x9B end"), "c1 ? end");
  EXPECT_EQ(printable_line("bidi \xE2\x80\xAE end"), "bidi ? end");
  EXPECT_EQ(printable_line("bad \xFF\xC3 end"), "bad ?? end");
}

TEST(Printable, NoticesKeepTheirLinesAndColours) {
  EXPECT_EQ(printable_text("a\n\x1b[32mb\x1b[0m\t\x1b[2J\r"), "a\n\x1b[32mb\x1b[0m\t?[2J?");
}

TEST(Bytes, SumsAndProductsThatLeave64BitsAreRefused) {
  const Bytes huge{INT64_MAX};
  const auto code = [](const auto& call) {
    try {
      (void)call();
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::ok;
  };
  EXPECT_EQ(code([&] { return huge + Bytes{1}; }), ExitCode::does_not_fit);
  EXPECT_EQ(code([&] { return Bytes{INT64_MIN} - Bytes{1}; }), ExitCode::does_not_fit);
  EXPECT_EQ(code([&] { return 2 * huge; }), ExitCode::does_not_fit);
  EXPECT_EQ(code([&] { return align_up(huge, 64); }), ExitCode::does_not_fit);
  EXPECT_EQ((Bytes{2} * 3 + Bytes{1} - Bytes{7}).value, 0);
}

}  // namespace
}  // namespace lazytrain
