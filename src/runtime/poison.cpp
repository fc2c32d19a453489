#include "runtime/poison.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace lazytrain {

#if defined(__SANITIZE_ADDRESS__)

void poison_all_but(const Program& program, const Op& op, const Arena& device, const Arena& host) {
  for (const Arena& arena : {device, host})
    if (arena.data != nullptr)
      __asan_poison_memory_region(arena.data, static_cast<std::size_t>(arena.size.value));
  const auto open = [&](const Buffer& buffer) {
    if (buffer.tier == Tier::disk) return;
    const Arena& arena = buffer.tier == Tier::device ? device : host;
    __asan_unpoison_memory_region(arena.data + buffer.offset.value,
                                  static_cast<std::size_t>(buffer.size.value));
  };
  for (const Operand& operand : op.operands) open(program.at(operand.buffer));
}

void unpoison(const Arena& device, const Arena& host) {
  for (const Arena& arena : {device, host})
    if (arena.data != nullptr)
      __asan_unpoison_memory_region(arena.data, static_cast<std::size_t>(arena.size.value));
}

#else

void poison_all_but(const Program&, const Op&, const Arena&, const Arena&) {}
void unpoison(const Arena&, const Arena&) {}

#endif

}  // namespace lazytrain
