// A config.json that is in memory already, for importers that make one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/architecture.h"

namespace lazytrain {

// What read_architecture does with a file; `where` names the document's origin in errors.
Architecture architecture_of(const nlohmann::json& document, const std::string& where,
                             Purpose purpose = Purpose::train);

}  // namespace lazytrain
