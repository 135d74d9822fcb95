// Puts the graphs of a node's attributes into the body that stands for the node.
#pragma once

#include <string>

#include "model/body_node.h"

namespace opgraft::model {

/// Replaces each node of the function `bytes` whose then_branch refers to a graph attribute of
/// `node`. Such a node is an If with one input more, the value that the graph takes. Throws a
/// NoBodyError if a graph does not have one input and one output.
std::string PutGraphs(const BodyNode& node, const std::string& bytes);

}  // namespace opgraft::model
