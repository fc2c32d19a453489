#include "formats/event_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lazytrain {
namespace {

std::string scalar(std::int64_t step) {
  const std::vector<EventScalar> scalars{{.tag = "train/loss", .value = 0.5F}};
  return scalars_event(1.5, step, scalars);
}

TEST(EventFile, CrcIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);  // the check value of its definition
  EXPECT_EQ(crc32c(""), 0U);
}

// What the protobuf classes of Python's tensorboard make of the same events.
TEST(EventFile, RecordsAreAsOtherProgramsWriteThem) {
  const auto hexadecimal = [](const std::string& bytes) {
    std::string text;
    for (const char byte : bytes) {
      text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
      text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
    }
    return text;
  };
  EXPECT_EQ(
      hexadecimal(scalar(300)),
      "2100000000000000017becf609000000000000f83f10ac022a130a110a0a747261696e2f6c6f7373150000003fb56a6431");
  EXPECT_EQ(hexadecimal(restart_event(1.5, 21)),
            "0f000000000000006d532b0909000000000000f83f10153a020801768d7cfc");
}

TEST(EventFile, IsCutBehindAStep) {
  const std::string head = event_file_head(1.5);
  const std::string file = head + scalar(10) + scalar(10) + scalar(20) + scalar(300);
  EXPECT_EQ(events_up_to(file, 0), head.size());
  EXPECT_EQ(events_up_to(file, 10), (head + scalar(10) + scalar(10)).size());
  EXPECT_EQ(events_up_to(file, 299), (head + scalar(10) + scalar(10) + scalar(20)).size());
  EXPECT_EQ(events_up_to(file, 300), file.size());
}

TEST(EventFile, IsCutBeforeWhatIsDamaged) {
  const std::string whole = event_file_head(1.5) + scalar(10), file = whole + scalar(20);
  EXPECT_EQ(events_up_to("", 100), 0U);
  for (std::size_t size = whole.size(); size < file.size(); ++size)
    EXPECT_EQ(events_up_to(file.substr(0, size), 100), whole.size()) << size;
  for (std::size_t at = whole.size(); at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(events_up_to(damaged, 100), whole.size()) << at;
  }
}

}  // namespace
}  // namespace lazytrain
