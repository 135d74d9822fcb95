// The bodies that depend on attributes, types or ranks. Each function returns the text of one for a
// node (function_text.h), or throws a NoBodyError. Names and numbers from the node are not in it.
#pragma once

#include <string>

#include "model/body_node.h"

namespace opgraft::model {

// arithmetic_bodies.cc
std::string WriteBitShift(const BodyNode& node);
std::string WriteMod(const BodyNode& node);
std::string WriteRmsNormalization(const BodyNode& node);

// attention_bodies.cc
std::string WriteAttention(const BodyNode& node);
std::string WriteFlexAttention(const BodyNode& node);

// rearranging_bodies.cc
std::string WriteDepthToSpace(const BodyNode& node);
std::string WriteRotaryEmbedding(const BodyNode& node);
std::string WriteSpaceToDepth(const BodyNode& node);

// recurrent_bodies.cc
std::string WriteLinearAttention(const BodyNode& node);
std::string WriteCausalConvWithState(const BodyNode& node);

}  // namespace opgraft::model
