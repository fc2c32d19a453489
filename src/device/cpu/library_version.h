// Which library multiplies matrices, for reports.
#pragma once

#include <string>

namespace lazytrain {

// "oneDNN 3.11.3"
std::string matmul_library();

}  // namespace lazytrain
