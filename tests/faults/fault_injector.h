// What the injected library (LD_PRELOAD) does to a process, told by environment variables:
//   LAZYTRAIN_FAULT_FOLDERS  only calls on files below one of these folders (separated by ':') are counted
//   LAZYTRAIN_FAULT_AT       the number of the call that fails, from 1; 0 or absent: none, calls are only
//   counted LAZYTRAIN_FAULT_KIND     what happens there, see FaultKind LAZYTRAIN_FAULT_TRACE    a file that
//   gets a line "number call path" for every counted call
// Never linked into the program: the program does not know of it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace faults {

enum class FaultKind {
  no_space,     // the call fails with ENOSPC
  stays_full,   // this call and every later one that needs space fails with ENOSPC, as on a full disk
  io_error,     // the call fails with EIO
  interrupted,  // a write fails with EINTR
  short_write,  // a write takes half of its bytes and says so
  kill_before,  // SIGKILL instead of the call
  kill_within,  // SIGKILL when half of a write's bytes are in the file
  kill_after,   // SIGKILL when the call has been done
  power_cut     // SIGKILL, and what was written since a file's last fsync is half lost
};

// What a counted call has to do.
struct Verdict {
  int error = 0;  // to fail with
  bool half = false, die_before = false, die_after = false;
};

// Counts a call on `path`; `takes_space`: whether a full disk refuses it. A call that is not below the
// watched folders is not counted.
Verdict arrived(const char* call, const std::string& path, bool takes_space);

// As SIGKILL by somebody else: no destructor, no handler. With power_cut, unflushed files lose their second
// half.
[[noreturn]] void die();

// The files that are open under the watched folders, by descriptor.
void remember(int descriptor, const std::string& path, bool writable);
void forget(int descriptor);
// "" where the descriptor is of no watched file.
std::string path_of(int descriptor);
bool is_writable(int descriptor);
// A file that was written and not flushed since, for power_cut.
void written(int descriptor);
void flushed(int descriptor);

}  // namespace faults
