// A second opinion on a Program, slow and simple on purpose: full transitive closure of what must end before
// what, then every pair of accesses to common bytes. Shares nothing with the verifier.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace lazytrain {

// What is wrong with the Program (races, reads of bytes that hold something else, cycles, bytes outside the
// arena, shared persistent bytes, copies larger than their buffers); empty = nothing.
std::vector<std::string> exhaustive_check(const Program& program);

}  // namespace lazytrain
