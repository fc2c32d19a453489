// What the profiler's timed operations read and write, laid out in two arenas. Private to `runtime`.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/decoder_layer.h"
#include "model/architecture.h"
#include "model/vocabulary.h"
#include "optim/group_state.h"
#include "runtime/profiler.h"

namespace lazytrain {

// Copies are timed on buffers that no cache holds.
inline constexpr Bytes kCopyBytes{std::int64_t{64} << 20};

// Consecutive pieces of one arena; counts only where the arena is not there yet.
class ArenaPieces {
 public:
  explicit ArenaPieces(std::byte* base) : base_(base) {}
  template <typename T = std::byte>
  T* take(std::int64_t bytes) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_.value;
    used_ += align_up(Bytes{bytes}, 4096);
    return reinterpret_cast<T*>(piece);
  }
  [[nodiscard]] Bytes used() const { return used_; }

 private:
  std::byte* base_;
  Bytes used_;
};

// Everything that the timed operations read and write.
struct ProfileBuffers {
  std::byte *weights, *x, *y, *gradient, *stash, *rest, *workspace;
  float *accumulator, *cosine;
  std::int32_t *positions, *document_start, *rows, *targets, *distinct, *token_rows;
  std::byte *norm_weight, *projection;  // head
  float *loss, *norm_accumulator, *projection_accumulator;
  std::byte *on_device, *on_host;  // copies
  std::byte *fp32_states, *eight_bit_states, *host_gradient, *host_weights, *embedding_gradient;
  float* gradient_rows;
  double* partial;
  WorkspaceBytes workspace_bytes;
  Bytes workspace_size;
};

struct ProfileSizes {
  Architecture architecture;
  VocabularySlice head;  // the part of the vocabulary that is timed
  std::vector<ParameterGroup> groups;
  std::int64_t rows, elements, update_elements;
  GroupStateLayout fp32_state, eight_bit_state;  // of `update_elements` parameters
};
ProfileSizes sizes_of(const Architecture& architecture, const ProfileOptions& options);

// `device` and `host` are measured where the arenas are not there yet.
ProfileBuffers place(const ProfileSizes& sizes, const ProfileOptions& options, ArenaPieces& device,
                     ArenaPieces& host);

}  // namespace lazytrain
