// Reads a PyOp node in the form of the documents, and writes the canonical node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/domains.h"
#include "model/declared_values.h"
#include "model/fields.h"
#include "model/python_spec.h"
#include "model/rope.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// The key of a node's metadata entry that names the Python module of its operator.
inline constexpr std::string_view kNodeModuleKey = "opgraft.module";

/// The fields of a NodeProto that identify it. Views of the node's bytes.
struct NodeHead {
  std::string_view name;
  std::string_view op_type;
  std::string_view domain;
  std::string_view overload;
  /// The Python module that declares its operator, from the node's metadata; or empty.
  std::string_view module;
  bool has_format = false;  ///< it has the attribute that marks a canonical node

  /// Whether the node is a PyOp, in any domain except that of onnxruntime-extensions, which has a
  /// PyOp of its own.
  bool IsPyOp() const {
    return (op_type == pyop::kOpType && domain != kExtensionsDomain) || IsCanonical();
  }
  bool IsCanonical() const { return domain == pyop::kDomain && has_format; }
};

NodeHead ReadHead(std::string_view node);

/// The fields of an AttributeProto that identify it. A view of its bytes.
struct AttributeHead {
  std::string_view name;
  std::int64_t type = 0;  ///< ONNX's AttributeProto.AttributeType
  bool is_reference = false;
};

AttributeHead ReadAttributeHead(std::string_view attribute);

/// Checks that each attribute of a node in a graph is given once and has a value. Outside of
/// functions, an attribute cannot refer to another.
Status CheckAttributes(std::string_view node, const NodeHead& head);

/// Checks that an attribute has the expected kind, an AttributeType. Messages begin with `who`.
Status CheckKind(std::string_view attribute, std::int64_t expected, const std::string& who);

/// Returns the node's name, or for a node without one, its operator and first output.
std::string NodeName(std::string_view node, const NodeHead& head);

struct PyOpNode {
  pyop::Spec spec;
  std::string op_type = pyop::kOpType;    ///< of the canonical node
  std::vector<std::string_view> inputs;   ///< "" if the input is absent
  std::vector<std::string_view> outputs;  ///< "" if the output is absent
  Rope rest;                              ///< other fields, such as documentation, kept unchanged

  /// Returns the inputs that are present.
  std::vector<std::string_view> PresentInputs() const;
};

/// Reads all fields except the attributes, and returns the attributes.
std::vector<Field> ReadParts(std::string_view node, const NodeHead& head, PyOpNode* read);

/// Reads a PyOp in either form; a node without a name gets one. Returns a ModelError if an
/// attribute has the wrong kind.
Status ReadPyOp(std::string_view node, PyOpNode* read);

/// Completes a node in the documents' form from the graph around it (the positions of absent inputs
/// and the shapes of its outputs), and checks it against what the graph declares.
Status Complete(const DeclaredValues& declared, PyOpNode* node);

/// Writes the canonical NodeProto. Moves the node's `rest` and arguments into it.
Rope WriteCanonical(PyOpNode* node);

}  // namespace opgraft::model
