// One piece of work in a stream's queue: any operation of the Device as a plain value.
#pragma once

#include <functional>
#include <memory>
#include <variant>

#include "device/cpu/progress.h"
#include "device/operations.h"

namespace lazytrain::cpu {

struct CopyWork {
  void* dst;
  const void* src;
  Bytes size;
};
struct ZeroWork {
  void* dst;
  Bytes size;
};
// Until the stream with this progress has finished `count` pieces.
struct WaitWork {
  std::shared_ptr<Progress> progress;
  std::uint64_t count;
};
struct CallWork {
  std::function<void()> function;
};

using Work =
    std::variant<std::monostate, CopyWork, ZeroWork, WaitWork, CallWork, LinearForward, LinearInputGradient,
                 LinearWeightGradient, BiasGradient, RmsNormForward, RmsNormBackward, HeadNormForward,
                 HeadNormBackward, Rope, AttentionForward, AttentionBackward, AttentionDecode, CacheFill,
                 SwigluForward, SwigluBackward, SoftmaxScores, CrossEntropyLoss, CrossEntropyGradient, ArgMax,
                 GatherRows, ScatterRows, Round, Add, OffloadGradient>;

}  // namespace lazytrain::cpu
