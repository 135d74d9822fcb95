// What was done for a node that the runtime cannot run as it is.
#pragma once

#include <string>

namespace opgraft::model {

struct Rescue {
  std::string node;           ///< the node's name, or its operator and first output
  std::string operator_name;  ///< "SwiGLU", or "domain::Name"
  std::string rung;           ///< by what, such as "function body"
  std::string cost;           ///< what that costs in each run, such as "7 nodes"
  std::string native_from;    ///< what would make it unnecessary, such as "opset 28"; or empty
};

}  // namespace opgraft::model
