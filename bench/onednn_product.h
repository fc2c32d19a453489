// One matrix product as one call of oneDNN on OpenMP's threads: what this processor can do, beside what the
// project makes of it.
#pragma once

#include <omp.h>

#include <cstdint>
#include <dnnl.hpp>

#include "device/operations.h"

namespace lazytrain::bench {

enum class Product { forward, input_gradient, weight_gradient };

// y[rows, out] = x[rows, in] * weight[out, in]^T and its two gradients; the weight gradient adds to fp32.
struct ProductShape {
  Product product;
  DataType type;
  std::int64_t rows, in, out;
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  }
};

class OneDnnProduct {
 public:
  // rows_in [rows, in], rows_out [rows, out], weight [out, in] of the shape's type, dweight [out, in] fp32;
  // all outlive the product. `threads`: OpenMP threads of the caller from here on.
  OneDnnProduct(const ProductShape& s, int threads, void* rows_in, void* rows_out, void* weight,
                float* dweight)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), threads_(threads) {
    using dnnl::memory;
    using Dims = memory::dims;
    omp_set_num_threads(threads);
    const auto type = s.type == DataType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
    const memory::desc x({s.rows, s.in}, type, Dims{s.in, 1});
    const memory::desc y({s.rows, s.out}, type, Dims{s.out, 1});
    const memory::desc w({s.out, s.in}, type, Dims{s.in, 1});
    const memory::desc dw({s.out, s.in}, memory::data_type::f32, Dims{s.in, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    void *a = rows_out, *b = weight, *c = rows_in;
    memory::desc a_desc = y, b_desc = w, c_desc = x;
    if (s.product == Product::forward) {
      a = rows_in, c = rows_out;
      a_desc = x, b_desc = w.permute_axes({1, 0}), c_desc = y;
    } else if (s.product == Product::weight_gradient) {
      b = rows_in, c = dweight;
      a_desc = y.permute_axes({1, 0}), b_desc = x, c_desc = dw;
      dnnl::post_ops after;
      after.append_sum(1.0F);
      attributes.set_post_ops(after);
    }
    const dnnl::matmul::primitive_desc description(engine_, a_desc, b_desc, c_desc, attributes);
    product_ = dnnl::matmul(description);
    a_ = memory(a_desc, engine_, a);
    b_ = memory(b_desc, engine_, b);
    c_ = memory(c_desc, engine_, c);
    scratch_ = memory(description.scratchpad_desc(), engine_);
  }

  void run() {
    omp_set_num_threads(threads_);
    product_.execute(
        stream_,
        {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}, {DNNL_ARG_SCRATCHPAD, scratch_}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  int threads_;
  dnnl::matmul product_;
  dnnl::memory a_, b_, c_, scratch_;
};

}  // namespace lazytrain::bench
