// Memory of machines with several NUMA nodes. Arenas are spread over all of them page by page: updates and
// copies run on threads of every socket and are bound by bandwidth, so each node must serve its part of it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace lazytrain::cpu {

// "0-1,3" -> 0, 1, 3: a list as the kernel writes it. Empty where the text is none, or names nodes from 1024
// on.
[[nodiscard]] std::vector<int> parse_node_list(std::string_view text);

// Asks for the pages of a mapping, none of which may exist yet, to be spread over the nodes that have memory.
// Nothing happens on machines with one node, or where the kernel refuses: then memory is as near as it
// happens to be.
void interleave_over_nodes(void* data, std::size_t size);

}  // namespace lazytrain::cpu
