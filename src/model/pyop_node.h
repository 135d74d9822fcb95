// A PyOp node as the documents write it, and the canonical node it becomes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/declared_values.h"
#include "model/fields.h"
#include "model/rope.h"
#include "opgraft/status.h"
#include "pyop/spec.h"

namespace opgraft::model {

/// The key of that entry.
inline constexpr std::string_view kNodeModuleKey = "opgraft.module";

/// The fields of a NodeProto that tell what it is. Views into the node's bytes.
struct NodeHead {
  std::string_view name;
  std::string_view op_type;
  std::string_view domain;
  std::string_view overload;
  /// The Python module that declares its operator, as its metadata says; or empty.
  std::string_view module;
  bool has_format = false;  ///< it has the attribute that marks a canonical node

  /// A PyOp, in whatever domain, but for that of onnxruntime-extensions, whose node it is then.
  bool IsPyOp() const {
    return (op_type == pyop::kOpType && domain != "ai.onnx.contrib") || IsCanonical();
  }
  bool IsCanonical() const { return domain == pyop::kDomain && has_format; }
};

NodeHead ReadHead(std::string_view node);

/// The fields of an AttributeProto that tell what it is. A view into its bytes.
struct AttributeHead {
  std::string_view name;
  std::int64_t type = 0;  ///< a number of AttributeProto.AttributeType
  bool is_reference = false;
};

AttributeHead ReadAttributeHead(std::string_view attribute);

/// Whether each attribute of a node in a graph has one value, and has it here: outside of functions
/// there is nothing to refer to.
Status CheckAttributes(std::string_view node, const NodeHead& head);

/// Whether an attribute is of the kind that `who` expects, a number of AttributeType.
Status CheckKind(std::string_view attribute, std::int64_t expected, const std::string& who);

/// The node's name; one without a name is called by its operator and its first output.
std::string NodeName(std::string_view node, const NodeHead& head);

struct PyOpNode {
  pyop::Spec spec;
  std::string op_type = pyop::kOpType;    ///< of the canonical node
  std::vector<std::string_view> inputs;   ///< "" for one that is absent
  std::vector<std::string_view> outputs;  ///< likewise
  Rope rest;                              ///< documentation and the like, kept as it is

  /// The inputs that are there.
  std::vector<std::string_view> PresentInputs() const;
};

/// Reads what every node has but its attributes, and returns those.
std::vector<Field> ReadParts(std::string_view node, const NodeHead& head, PyOpNode* read);

/// Reads a PyOp in either form; one without a name gets one. A ModelError where an attribute is not
/// of the kind it must be.
Status ReadPyOp(std::string_view node, PyOpNode* read);

/// Completes what a node in the documents' form leaves to the graph around it (the places of absent
/// inputs, the shapes of its outputs) and checks it against what the graph declares.
Status Complete(const DeclaredValues& declared, PyOpNode* node);

/// The bytes of the canonical NodeProto. Moves the node's `rest` and the arguments there.
Rope WriteCanonical(PyOpNode* node);

}  // namespace opgraft::model
