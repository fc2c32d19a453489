// The verifier proves a Program safe before it may run, from the finished list alone and by code of its own
// (it shares nothing with lowering): no deadlock, no data race, no read of bytes that nobody wrote, no tier
// over its capacity, no buffer outside its arena.
#pragma once

#include <string>
#include <vector>

#include "plan/machine.h"
#include "program/program.h"

namespace lazytrain {

struct Violation {
  enum class Kind : std::uint8_t {
    malformed,     // an operand, stream or `after` that does not exist
    deadlock,      // waits form a cycle
    race,          // two conflicting accesses of which neither must end before the other
    stale_read,    // reads bytes that another buffer's data, or nobody's, occupies
    out_of_arena,  // a buffer reaches past its arena
    shared,        // bytes that outlive the step, or two operands of one op, lie on one another
    overrun,       // an op moves more bytes than its buffers have
    out_of_reach,  // a compute op uses what is not on the device
    overflow       // an arena is larger than the tier
  };
  Kind kind;
  std::string what;
};

// All violations found (at most `most`), empty = safe.
std::vector<Violation> verify(const Program& program, const Machine& machine, std::size_t most = 16);

// Throws std::logic_error listing the violations, or Error(does_not_fit) where only capacities are exceeded.
void verify_or_throw(const Program& program, const Machine& machine);

}  // namespace lazytrain
