// The bodies that depend on attributes, types or ranks. Each function returns the text of one for a
// node (function_text.h), or throws a NoBodyError. Names and numbers from the node are not in it.
#pragma once

#include <string>

#include "model/body_node.h"

namespace opgraft::model {

// recurrent_bodies.cc
std::string WriteLinearAttention(const BodyNode& node);
std::string WriteCausalConvWithState(const BodyNode& node);

}  // namespace opgraft::model
