// How a sentence about a failed write ends.
#pragma once

#include <cerrno>

namespace lazytrain {

// What a user can do where the system refused to write with this errno: "; free some space or ...".
[[nodiscard]] inline const char* disk_advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "; free some space or choose another folder";
    case EACCES:
    case EPERM:
      return "; change its rights or choose another folder";
    case EIO:
      return "; check the disk or choose another folder";
    default:
      return "; choose another folder";
  }
}

}  // namespace lazytrain
