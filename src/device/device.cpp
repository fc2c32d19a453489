#include "device/device.h"

namespace lazytrain {

const char* to_string(MemoryModel model) {
  switch (model) {
    case MemoryModel::unified:
      return "unified";
    case MemoryModel::emulated:
      return "emulated";
    case MemoryModel::discrete:
      return "discrete";
  }
  return "unknown";
}

const char* to_string(StreamKind kind) {
  switch (kind) {
    case StreamKind::compute:
      return "compute";
    case StreamKind::h2d:
      return "h2d";
    case StreamKind::d2h:
      return "d2h";
    case StreamKind::host:
      return "host";
    case StreamKind::disk_read:
      return "disk_read";
    case StreamKind::disk_write:
      return "disk_write";
  }
  return "unknown";
}

}  // namespace lazytrain
