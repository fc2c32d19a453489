// A flat table from pairs of numbers to two numbers (open addressing, linear probing): merges by the ids they
// join, the edges of a trie, sets of pairs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "core/random.h"

namespace lazytrain {

class PairTable {
 public:
  struct Entry {
    std::uint32_t rank = 0;
    std::int32_t id = 0;
  };
  PairTable() { reserve(0); }
  // Room for so many pairs; forgets what is in the table.
  void reserve(std::size_t pairs) {
    slots_.assign(std::bit_ceil(2 * pairs + 2), Slot{});
    used_ = 0;
  }
  // Of a pair given twice the later entry stays.
  void insert(std::int32_t left, std::int32_t right, Entry entry) {
    const std::uint64_t key = key_of(left, right);
    Slot& slot = slots_[slot_of(key)];
    if (slot.key == kFree) ++used_;
    check(2 * used_ < slots_.size() + 2, "the table of pairs was reserved for all of them");
    slot = {.key = key, .entry = entry};
  }
  // Null where the pair is not in the table.
  [[nodiscard]] const Entry* find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    const Slot& slot = slots_[slot_of(key)];
    return slot.key == key ? &slot.entry : nullptr;
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Entry entry;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = mix64(key) & mask;
    while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace lazytrain
