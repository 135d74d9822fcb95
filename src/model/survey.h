// What stands in a model: its versions, and the operators that its nodes are of, wherever they
// stand. Nothing is changed or refused here, so that a report can name all there is.
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

/// An input or output of all nodes of an operator.
struct SurveyedValue {
  std::string name;               ///< in the first node that has it
  std::int64_t element_type = 0;  ///< that the model declares; 0 where it does not, or differently
  std::size_t count = 0;          ///< the nodes that have it
};

struct SurveyedAttribute {
  std::int64_t type = 0;  ///< a number of AttributeProto.AttributeType; 0 where nodes differ
  std::size_t count = 0;  ///< the nodes that have it
};

struct SurveyedNode {
  std::string name;
  std::string place;  ///< "then_branch of 'choice' in function local.f"; "" for the graph itself
};

struct SurveyedOperator {
  std::string domain;  ///< "" for ONNX's own, whichever of its names the model uses
  std::string op_type;
  std::string overload;
  std::int64_t version = 0;  ///< the newest that is imported where a node stands; 0: none is

  // Of a PyOp, in either form. All of one operator run the same.
  bool is_pyop = false;
  bool is_referring = false;  ///< stands in a function, whose calls say what it runs
  std::string module;
  std::string class_name;
  std::string compute;
  std::string operator_name;  ///< "domain::Name" in the prepared node of a declared operator

  // Of a node that torch runs, in libtorch or in Python.
  std::string torch_operator;  ///< "aten::median.dim"; "" where it is not said, or by a call
  std::string defined_in;      ///< the Python module that it names, or ""

  bool is_function = false;  ///< calls a function of the model
  std::size_t count = 0;
  std::vector<SurveyedNode> nodes;  ///< the first ones
  std::vector<SurveyedValue> inputs;
  std::vector<SurveyedValue> outputs;
  std::map<std::string, SurveyedAttribute> attributes;  ///< of a PyOp those for __init__
  /// What has changed since the newest opset that the runtime takes, such as "Range with
  /// 'stash_type' (since opset 27)".
  std::set<std::string> differences;
};

struct SurveyedImport {
  std::string domain;
  std::int64_t version = 0;
  std::int64_t limit = 0;  ///< the newest that the runtime takes; 0 where it takes any
  std::int64_t known = 0;  ///< the newest of which Opgraft knows what changed; 0 where it need not
};

struct Survey {
  bool is_ort_format = false;  ///< the runtime's own format, which is not looked into
  std::int64_t ir_version = 0;
  std::int64_t ir_limit = 0;
  std::int64_t ir_known = 0;                   ///< the newest that Opgraft knows
  std::vector<SurveyedImport> imports;         ///< the newest of each domain, functions included
  std::map<std::string, std::string> modules;  ///< of declared operators, by "domain::Name"
  std::string holds_where;                     ///< the data that it holds for; as it is written
  std::string differs;                         ///< what is not as in its source; as it is written
  std::vector<SurveyedOperator> operators;     ///< in the order in which they are met
};

/// Surveys `model` for ONNX Runtime `runtime_version`. A ModelError, which names the model as
/// `origin`, where the bytes are none or a PyOp has attributes that it cannot have; a plain error
/// for a version that is none, or too old.
Status TakeSurvey(std::string_view model, std::string_view origin, std::string_view runtime_version,
                  Survey* survey);

}  // namespace opgraft::model
