#include "device/cpu/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string>

namespace lazytrain::cpu {
namespace {

constexpr int kMostNodes = 1024;
constexpr int kInterleave = 3;  // MPOL_INTERLEAVE of linux/mempolicy.h

}  // namespace

std::vector<int> parse_node_list(std::string_view text) {
  std::vector<int> nodes;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const std::string_view from = part.substr(0, dash), to = dash == part.npos ? from : part.substr(dash + 1);
    int first = -1, last = -1;
    const auto a = std::from_chars(from.data(), from.data() + from.size(), first);
    const auto b = std::from_chars(to.data(), to.data() + to.size(), last);
    const bool whole = a.ptr == from.data() + from.size() && b.ptr == to.data() + to.size();
    if (a.ec != std::errc() || b.ec != std::errc() || !whole || first < 0 || last < first ||
        last >= kMostNodes)
      return {};
    for (int node = first; node <= last; ++node) nodes.push_back(node);
  }
  return nodes;
}

void interleave_over_nodes(void* data, std::size_t size) {
  std::ifstream file("/sys/devices/system/node/has_memory");
  std::string text;
  std::getline(file, text);
  const std::vector<int> nodes = parse_node_list(text);
  if (nodes.size() < 2) return;
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostNodes / kBits> mask{};
  for (const int node : nodes)
    mask[static_cast<std::size_t>(node) / kBits] |= 1UL << (static_cast<std::size_t>(node) % kBits);
  // One system call, so libnuma would be a dependency for nothing. The bit count is one more than the bits.
  syscall(SYS_mbind, data, size, kInterleave, mask.data(), static_cast<unsigned long>(kMostNodes) + 1, 0U);
}

}  // namespace lazytrain::cpu
