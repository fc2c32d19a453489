// Which cores the threads of a device run on.
#pragma once

#include <string>
#include <vector>

namespace lazytrain::cpu {

// Cores the calling thread may run on, in rising order.
std::vector<int> allowed_cores();

// Set-up of a thread of ours: its name in debuggers and `top -H` (15 characters), its cores (empty: as they
// are), and sleeps that end as punctually as the kernel can.
void set_up_thread(const std::string& name, const std::vector<int>& cores);

}  // namespace lazytrain::cpu
