// How much scratch the layers need on the device, for plans: measured by the layers' own code.
#pragma once

#include "device/operations.h"
#include "model/architecture.h"
#include "plan/cost_table.h"

namespace lazytrain {

// For micro-batches of `slots` slots of `slot_tokens` tokens. `sequences` > 0 also covers decoding that many.
WorkspaceBytes workspace_bytes(const Architecture& architecture, DataType type, std::int64_t slots,
                               std::int64_t slot_tokens, std::int64_t sequences = 0);

}  // namespace lazytrain
