// Lists what a model contains: its versions, and the operators of all its nodes, nested ones
// included. Nothing is changed or refused here, so that a report can name everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::model {

/// An input or output, over all nodes of an operator.
struct SurveyedValue {
  std::string name;               ///< in the first node that has the value
  std::int64_t element_type = 0;  ///< as declared; 0 if it is not declared or nodes differ
  std::size_t count = 0;          ///< the number of nodes that have the value
};

struct SurveyedAttribute {
  std::int64_t type = 0;  ///< ONNX's AttributeProto.AttributeType; 0 if nodes differ
  std::size_t count = 0;  ///< the number of nodes that have the attribute
};

struct SurveyedNode {
  std::string name;
  std::string place;  ///< "then_branch of 'choice' in function local.f"; "" for the graph itself
};

struct SurveyedOperator {
  std::string domain;  ///< "" for ONNX's own, also if the model says "ai.onnx"
  std::string op_type;
  std::string overload;
  std::int64_t version = 0;  ///< the newest version imported for any of its nodes; 0: none

  // For a PyOp in either form. All nodes of one operator run the same code.
  bool is_pyop = false;
  bool is_referring = false;  ///< it is in a function, whose calls determine what it runs
  std::string module;
  std::string class_name;
  std::string compute;
  std::string operator_name;  ///< "domain::Name" in the prepared node of a declared operator

  // For a node that torch runs, in libtorch or in Python.
  std::string torch_operator;  ///< "aten::median.dim"; "" if unknown or given by a call
  std::string defined_in;      ///< the Python module that the node names, or ""

  bool is_function = false;  ///< its nodes call a function of the model
  std::size_t count = 0;
  std::vector<SurveyedNode> nodes;  ///< the first few nodes
  std::vector<SurveyedValue> inputs;
  std::vector<SurveyedValue> outputs;
  std::map<std::string, SurveyedAttribute> attributes;  ///< for a PyOp, those for __init__
  /// What has changed since the newest opset that the runtime supports, such as "Range with
  /// 'stash_type' (since opset 27)".
  std::set<std::string> differences;
};

struct SurveyedImport {
  std::string domain;
  std::int64_t version = 0;
  std::int64_t limit = 0;  ///< the newest that the runtime supports; 0: any
  std::int64_t known = 0;  ///< the newest whose changes Opgraft knows; 0 if it need not know
};

struct Survey {
  bool is_ort_format = false;  ///< the runtime's own format, which is not read
  std::int64_t ir_version = 0;
  std::int64_t ir_limit = 0;
  std::int64_t ir_known = 0;                   ///< the newest that Opgraft knows
  std::vector<SurveyedImport> imports;         ///< the newest of each domain, including functions
  std::map<std::string, std::string> modules;  ///< of declared operators, by "domain::Name"
  std::string holds_where;                  ///< the data that the model is valid for, as recorded
  std::string differs;                      ///< how the model differs from its source, as recorded
  std::vector<SurveyedOperator> operators;  ///< in order of appearance
};

/// Surveys `model` for ONNX Runtime `runtime_version`. Returns a ModelError, which names the model
/// as `origin`, if the bytes are not a model or a PyOp has invalid attributes, and a plain Error if
/// the version is invalid or too old.
Status TakeSurvey(std::string_view model, std::string_view origin, std::string_view runtime_version,
                  Survey* survey);

}  // namespace opgraft::model
