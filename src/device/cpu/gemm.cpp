#include "device/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <initializer_list>

#include "core/error.h"
#include "core/random.h"
#include "device/cpu/access_notes.h"
#include "device/cpu/instruction_set.h"
#include "device/cpu/memory_region.h"

namespace lazytrain::cpu {
namespace {

// One engine for all devices and threads: oneDNN has the process's instruction set in a global anyway,
// and takes it only before the first primitive.
const dnnl::engine& engine() {
  static const dnnl::engine shared = [] {
    switch (instruction_set()) {
      case InstructionSet::avx512_bf16:
        break;  // whatever more the processor has (AMX) is welcome
      case InstructionSet::avx512:
        dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
        break;
      case InstructionSet::avx2:
        dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
        break;
      case InstructionSet::baseline:
        dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
        break;
    }
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return shared;
}

// What a thread needs to run products. Made at its first product and kept, so that steps allocate nothing.
struct ThreadWorkspace {
  ThreadWorkspace() : stream(engine()) { omp_set_num_threads(1); }

  std::byte* scratch(std::int64_t size) {
    if (size > memory.size().value) {
      constexpr std::int64_t kUsual = std::int64_t{16} << 20;  // address space; pages come as they are used
      memory =
          MemoryRegion({std::max(size, kUsual)}, MemoryRegion::Pages::lazily, "a thread's matmul scratch");
    }
    return memory.data();
  }

  dnnl::stream stream;
  MemoryRegion memory;
};

ThreadWorkspace& workspace() {
  thread_local ThreadWorkspace of_this_thread;
  return of_this_thread;
}

dnnl::memory::data_type dnnl_type(DataType type) {
  return type == DataType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// A matrix of `lines` contiguous runs of `length` elements, `stride` elements apart.
struct Lines {
  std::int64_t lines, length, stride;
};
Lines lines_of_a(const GemmShape& s) {
  return s.a_column == 1 ? Lines{s.m, s.k, s.a_row} : Lines{s.k, s.m, s.a_column};
}
Lines lines_of_b(const GemmShape& s) {
  return s.b_column == 1 ? Lines{s.k, s.n, s.b_row} : Lines{s.n, s.k, s.b_column};
}
Lines lines_of_c(const GemmShape& s) {
  return {s.m, s.n, s.c_row};
}

void note_reads(const std::byte* data, const Lines& lines, DataType type) {
  for (std::int64_t i = 0; i < lines.lines; ++i) {
    note_read(data + i * lines.stride * size_of(type),
              static_cast<std::size_t>(lines.length * size_of(type)));
  }
}

void note_accesses(const GemmShape& s, const std::byte* a, const std::byte* b, const void* bias,
                   std::byte* c) {
  note_reads(a, lines_of_a(s), s.operand);
  note_reads(b, lines_of_b(s), s.operand);
  if (s.bias) note_read(bias, static_cast<std::size_t>(s.n * size_of(s.operand)));
  for (std::int64_t i = 0; i < s.m; ++i) {
    note_write(c + i * s.c_row * size_of(s.result), static_cast<std::size_t>(s.n * size_of(s.result)));
  }
}

// Matrices with gaps between their lines are copied to and from dense ones in scratch: oneDNN's kernels for
// dense matrices (the only ones that use AMX tiles, too) work in scratch that we give them, where the one
// that takes gaps allocates some in every call. The copies cost 1 to 4 %, as much as those kernels gain.
bool has_gaps(const Lines& lines) {
  return lines.lines > 1 && lines.stride != lines.length;
}

std::int64_t dense_bytes(const Lines& lines, DataType type) {
  return has_gaps(lines) ? align_up({lines.lines * lines.length * size_of(type)}, kBufferAlignment).value : 0;
}

void copy_lines(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
                const Lines& lines, DataType type) {
  const auto bytes = static_cast<std::size_t>(lines.length * size_of(type));
  for (std::int64_t i = 0; i < lines.lines; ++i) {
    std::memcpy(to + i * to_stride * size_of(type), from + i * from_stride * size_of(type), bytes);
  }
}

// The matrix as it is, or its dense copy at `to`.
const std::byte* dense(const std::byte* from, const Lines& lines, DataType type, std::byte* to) {
  if (!has_gaps(lines)) return from;
  copy_lines(from, lines.stride, to, lines.length, lines, type);
  return to;
}

class DnnlGemm final : public Gemm {
 public:
  explicit DnnlGemm(const GemmShape& shape) : shape_(shape) {
    using dnnl::memory;
    workspace();  // this thread has one OpenMP thread from here on: the primitive is made for that many
    const auto type = dnnl_type(shape.operand);
    const Lines a = lines_of_a(shape);
    const Lines b = lines_of_b(shape);
    a_ = memory::desc({shape.m, shape.k}, type,
                      shape.a_column == 1 ? memory::dims{a.length, 1} : memory::dims{1, a.length});
    b_ = memory::desc({shape.k, shape.n}, type,
                      shape.b_column == 1 ? memory::dims{b.length, 1} : memory::dims{1, b.length});
    c_ = memory::desc({shape.m, shape.n}, dnnl_type(shape.result), memory::format_tag::ab);
    if (shape.bias) bias_ = memory::desc({1, shape.n}, type, memory::format_tag::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
    if (shape.accumulate) {
      dnnl::post_ops after;
      after.append_sum(1.0F);
      attributes.set_post_ops(after);
    }
    const dnnl::matmul::primitive_desc description(engine(), a_, b_, bias_, c_, attributes);
    scratchpad_ = description.scratchpad_desc();
    product_ = dnnl::matmul(description);
    a_bytes_ = dense_bytes(a, shape.operand);
    b_bytes_ = dense_bytes(b, shape.operand);
    c_bytes_ = dense_bytes(lines_of_c(shape), shape.result);
  }

  void run(const std::byte* a, const std::byte* b, const void* bias, std::byte* c) const override {
    run(a, b, bias, c, workspace().scratch(scratch_size()));
  }

  // With scratch of the caller, scratch_size() bytes.
  void run(const std::byte* a, const std::byte* b, const void* bias, std::byte* c, std::byte* scratch) const {
    note_accesses(shape_, a, b, bias, c);
    a = dense(a, lines_of_a(shape_), shape_.operand, scratch);
    scratch += a_bytes_;
    b = dense(b, lines_of_b(shape_), shape_.operand, scratch);
    scratch += b_bytes_;
    const Lines lines = lines_of_c(shape_);
    std::byte* result = c_bytes_ > 0 ? scratch : c;
    scratch += c_bytes_;
    if (c_bytes_ > 0 && shape_.accumulate) dense(c, lines, shape_.result, result);
    const auto argument = [](const dnnl::memory::desc& desc, const void* data) {
      return dnnl::memory(desc, engine(), const_cast<void*>(data));
    };
    product_.execute(workspace().stream, {{DNNL_ARG_SRC, argument(a_, a)},
                                          {DNNL_ARG_WEIGHTS, argument(b_, b)},
                                          {DNNL_ARG_BIAS, argument(bias_, bias)},
                                          {DNNL_ARG_DST, argument(c_, result)},
                                          {DNNL_ARG_SCRATCHPAD, argument(scratchpad_, scratch)}});
    if (c_bytes_ > 0) copy_lines(result, lines.length, c, lines.stride, lines, shape_.result);
  }
  [[nodiscard]] std::int64_t scratch_size() const {
    return a_bytes_ + b_bytes_ + c_bytes_ + static_cast<std::int64_t>(scratchpad_.get_size());
  }

 private:
  GemmShape shape_;
  dnnl::memory::desc a_, b_, c_, bias_, scratchpad_;
  dnnl::matmul product_;
  std::int64_t a_bytes_ = 0, b_bytes_ = 0, c_bytes_ = 0;  // of the dense copies
};

void widen(const std::byte* from, const Lines& lines, float* to) {
  for (std::int64_t i = 0; i < lines.lines; ++i) {
    const auto* line = reinterpret_cast<const bfloat16*>(from) + i * lines.stride;
    for (std::int64_t j = 0; j < lines.length; ++j) to[i * lines.length + j] = to_float(line[j]);
  }
}

// bf16 operands on processors without bf16 instructions: widened to fp32 in pieces along k, multiplied in
// fp32 into an fp32 result, which is rounded once at the end.
class WidenedGemm final : public Gemm {
 public:
  explicit WidenedGemm(const GemmShape& shape)
      : shape_(shape),
        whole_(widened(shape, std::min(shape.k, kPiece))),
        rest_(widened(shape, rest(shape))) {}

  void run(const std::byte* a, const std::byte* b, const void* bias, std::byte* c) const override {
    const std::int64_t piece = std::min(shape_.k, kPiece);
    const bool direct = shape_.result == DataType::f32;
    const std::int64_t a_bytes = align_up({shape_.m * piece * 4}, kBufferAlignment).value;
    const std::int64_t b_bytes = align_up({shape_.n * piece * 4}, kBufferAlignment).value;
    const std::int64_t c_bytes = direct ? 0 : align_up({shape_.m * shape_.n * 4}, kBufferAlignment).value;
    const std::int64_t inner = std::max(whole_.scratch_size(), rest_.scratch_size());
    std::byte* wide_a = workspace().scratch(a_bytes + b_bytes + c_bytes + inner);
    std::byte* wide_b = wide_a + a_bytes;
    auto* wide_c = reinterpret_cast<float*>(wide_b + b_bytes);
    std::byte* scratch = wide_b + b_bytes + c_bytes;
    note_accesses(shape_, a, b, bias, c);

    const std::int64_t c_row = direct ? shape_.c_row : shape_.n;
    if (direct) wide_c = reinterpret_cast<float*>(c);
    const auto* given_bias = static_cast<const bfloat16*>(bias);
    const auto* given_c = reinterpret_cast<const bfloat16*>(c);
    for (std::int64_t i = 0; i < shape_.m; ++i) {
      for (std::int64_t j = 0; j < shape_.n; ++j) {
        float& sum = wide_c[i * c_row + j];
        if (!shape_.accumulate) sum = 0;
        if (shape_.accumulate && !direct) sum = to_float(given_c[i * shape_.c_row + j]);
        if (shape_.bias) sum += to_float(given_bias[j]);
      }
    }
    for (std::int64_t k = 0; k < shape_.k; k += piece) {
      GemmShape part = shape_;
      part.k = std::min(piece, shape_.k - k);
      widen(a + k * shape_.a_column * 2, lines_of_a(part), reinterpret_cast<float*>(wide_a));
      widen(b + k * shape_.b_row * 2, lines_of_b(part), reinterpret_cast<float*>(wide_b));
      (part.k == piece ? whole_ : rest_)
          .run(wide_a, wide_b, nullptr, reinterpret_cast<std::byte*>(wide_c), scratch);
    }
    if (direct) return;
    auto* result = reinterpret_cast<bfloat16*>(c);
    for (std::int64_t i = 0; i < shape_.m; ++i) {
      for (std::int64_t j = 0; j < shape_.n; ++j) {
        result[i * shape_.c_row + j] = to_bfloat16(wide_c[i * c_row + j]);
      }
    }
  }

 private:
  static constexpr std::int64_t kPiece = 256;

  static std::int64_t rest(const GemmShape& shape) {
    return shape.k % kPiece == 0 ? std::min(shape.k, kPiece) : shape.k % kPiece;
  }
  // The fp32 product of dense pieces of depth k that adds to its result.
  static GemmShape widened(const GemmShape& shape, std::int64_t k) {
    GemmShape wide = shape;
    wide.operand = wide.result = DataType::f32;
    wide.k = k;
    (wide.a_column == 1 ? wide.a_row : wide.a_column) = wide.a_column == 1 ? k : wide.m;
    (wide.b_column == 1 ? wide.b_row : wide.b_column) = wide.b_column == 1 ? wide.n : k;
    if (shape.result != DataType::f32) wide.c_row = wide.n;
    wide.bias = false;
    wide.accumulate = true;
    return wide;
  }

  GemmShape shape_;
  DnnlGemm whole_, rest_;
};

}  // namespace

std::size_t GemmCache::Hash::operator()(const GemmShape& s) const {
  std::uint64_t hash = static_cast<std::uint64_t>(s.operand) | static_cast<std::uint64_t>(s.result) << 1 |
                       static_cast<std::uint64_t>(s.bias) << 2 |
                       static_cast<std::uint64_t>(s.accumulate) << 3;
  for (const std::int64_t value : {s.m, s.n, s.k, s.a_row, s.a_column, s.b_row, s.b_column, s.c_row}) {
    hash = mix64(hash ^ static_cast<std::uint64_t>(value));
  }
  return hash;
}

const Gemm& GemmCache::find(const GemmShape& shape) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Gemm>& product = products_[shape];
  if (!product) {
    const bool native = shape.operand == DataType::f32 || instruction_set() >= InstructionSet::avx512_bf16;
    try {
      if (native) {
        product = std::make_unique<DnnlGemm>(shape);
      } else {
        product = std::make_unique<WidenedGemm>(shape);
      }
    } catch (const dnnl::error& error) {
      fail(ExitCode::device, "oneDNN has no {} x {} x {} matrix product for this processor ({})", shape.m,
           shape.n, shape.k, error.what());
    }
  }
  return *product;
}

}  // namespace lazytrain::cpu
