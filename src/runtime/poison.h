// Under AddressSanitizer an op of a debug run sees only its own buffers: everything else of the arenas is
// poisoned, so that a stray access ends the run with a report. Without the sanitizer these do nothing.
#pragma once

#include "device/device.h"
#include "program/program.h"

namespace lazytrain {

void poison_all_but(const Program& program, const Op& op, const Arena& device, const Arena& host);
void unpoison(const Arena& device, const Arena& host);

}  // namespace lazytrain
