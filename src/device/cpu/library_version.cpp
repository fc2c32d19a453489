#include "device/cpu/library_version.h"

#include <fmt/core.h>

#include <dnnl.hpp>

namespace lazytrain {

std::string matmul_library() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace lazytrain
