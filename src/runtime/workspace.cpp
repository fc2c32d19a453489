#include "runtime/workspace.h"

#include <algorithm>

#include "core/error.h"
#include "layers/decoder_layer.h"
#include "layers/head.h"

namespace lazytrain {
namespace {

// What layers/ computes; other layers can be planned, with modelled scratch.
bool is_computed(const Architecture& a) {
  return a.layers_of(LayerKind::attention) + a.layers_of(LayerKind::sliding_attention) == a.layers &&
         !a.attention_gate;
}

}  // namespace

WorkspaceBytes workspace_bytes(const Architecture& architecture, DataType type, std::int64_t slots,
                               std::int64_t slot_tokens, std::int64_t sequences) {
  const Head head(architecture, type);
  const std::int64_t rows = slots * slot_tokens;
  if (!is_computed(architecture)) {
    check(sequences == 0, "layers that nothing computes do not generate");
    WorkspaceBytes modelled = modelled_layer_workspace(architecture, rows, size_of(type));
    modelled.head = head.workspace(slot_tokens);
    modelled.head_slice = head.slice_workspace(slot_tokens);
    return modelled;
  }
  const DecoderLayer layer(architecture, type);
  WorkspaceBytes bytes{.forward = layer.forward_workspace(rows),
                       .recompute = layer.recompute_workspace(rows),
                       .backward = layer.backward_workspace(rows),
                       .head = head.workspace(slot_tokens),
                       .head_slice = head.slice_workspace(slot_tokens),
                       .decode = Bytes{0}};
  if (sequences > 0) bytes.decode = std::max(layer.forward_workspace(sequences), head.workspace(sequences));
  return bytes;
}

}  // namespace lazytrain
