// Thread pools where the system starts no more threads.
#include "core/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <unistd.h>
#include <atomic>
#include <fstream>
#include <string>

#include "core/error.h"

namespace lazytrain {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Leaves this process room for a few more stacks, as long as it lives.
class LittleAddressSpace {
 public:
  LittleAddressSpace() {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit tight = before_;
    tight.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
    setrlimit(RLIMIT_AS, &tight);
  }
  ~LittleAddressSpace() { setrlimit(RLIMIT_AS, &before_); }
  LittleAddressSpace(const LittleAddressSpace&) = delete;
  LittleAddressSpace& operator=(const LittleAddressSpace&) = delete;

 private:
  rlimit before_{};
};

TEST(ThreadPool, ThreadsThatCannotBeStartedAreOneSentence) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the process itself";
  std::string sentence;
  ExitCode code = ExitCode::ok;
  {
    const LittleAddressSpace limit;
    try {
      const ThreadPool pool(400);
    } catch (const Error& error) {
      sentence = error.what();
      code = error.code();
    }
  }
  EXPECT_EQ(code, ExitCode::does_not_fit);
  EXPECT_THAT(sentence, ::testing::HasSubstr("of 400 threads"));
  EXPECT_THAT(sentence, ::testing::HasSubstr("lower threads"));
  // Those that had been started are gone, and a smaller pool works.
  ThreadPool pool(2);
  std::atomic<int> calls = 0;
  pool.parallel_for(10, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 10);
}

}  // namespace
}  // namespace lazytrain
