#include "runtime/workspace.h"

#include <algorithm>

#include "layers/decoder_layer.h"
#include "layers/head.h"

namespace lazytrain {

WorkspaceBytes workspace_bytes(const Architecture& architecture, DataType type, std::int64_t slots,
                               std::int64_t slot_tokens, std::int64_t sequences) {
  const DecoderLayer layer(architecture, type);
  const Head head(architecture, type);
  const std::int64_t rows = slots * slot_tokens;
  WorkspaceBytes bytes{.forward = layer.forward_workspace(rows),
                       .recompute = layer.recompute_workspace(rows),
                       .backward = layer.backward_workspace(rows),
                       .head = head.workspace(slot_tokens),
                       .decode = Bytes{0}};
  if (sequences > 0) bytes.decode = std::max(layer.forward_workspace(sequences), head.workspace(sequences));
  return bytes;
}

}  // namespace lazytrain
