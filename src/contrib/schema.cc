// Converts a schema in ONNX's style to the definition of an operator.
#include "opgraft/contrib/schema.h"

#include <algorithm>
#include <map>

#include "opgraft/c_api.h"
#include "opgraft/element_table.h"

namespace ONNX_NAMESPACE {
namespace {

using opgraft::internal::OperatorDefinition;
using opgraft::internal::ParameterDefinition;
using opgraft::internal::TypeDefinition;

/// Returns ONNX's number of a type by its name, such as "tensor(float)"; 0 if it is not a tensor
/// type.
std::int32_t FindTensorType(const std::string& name) {
  for (const opgraft::internal::ElementType& type : opgraft::internal::kElementTypes) {
    if (type.number != 0 && name == MakeString("tensor(", type.onnx_name, ")")) return type.number;
  }
  return 0;
}

}  // namespace

const std::vector<std::string>& OpSchema::all_numeric_types() {
  static const std::vector<std::string> types = {
      "tensor(uint8)", "tensor(uint16)", "tensor(uint32)",  "tensor(uint64)",
      "tensor(int8)",  "tensor(int16)",  "tensor(int32)",   "tensor(int64)",
      "tensor(float)", "tensor(double)", "tensor(float16)", "tensor(bfloat16)"};
  return types;
}

const std::vector<std::string>& OpSchema::all_tensor_types() {
  static const std::vector<std::string> types = [] {
    std::vector<std::string> all = all_numeric_types();
    all.insert(all.end(), {"tensor(string)", "tensor(bool)"});
    return all;
  }();
  return types;
}

const std::vector<std::string>& OpSchema::all_float_types_ir4() {
  static const std::vector<std::string> types = {"tensor(float)", "tensor(double)",
                                                 "tensor(float16)", "tensor(bfloat16)"};
  return types;
}

const std::vector<std::string>& OpSchema::numeric_types_for_math_reduction() {
  static const std::vector<std::string> types = {
      "tensor(uint32)",  "tensor(uint64)", "tensor(int32)",  "tensor(int64)",
      "tensor(float16)", "tensor(float)",  "tensor(double)", "tensor(bfloat16)"};
  return types;
}

OpSchema& OpSchema::Set(std::vector<Parameter>* parameters, int place, Parameter parameter) {
  constexpr int kMost = 1000;
  const char* const what = parameters == &inputs_ ? "input" : "output";
  if (place < 0 || place > kMost) {
    problems_.push_back(MakeString(what, " '", parameter.name, "' has the index ", place,
                                   ", expected 0 to ", kMost));
    return *this;
  }
  const auto index = static_cast<std::size_t>(place);
  if (parameters->size() <= index) parameters->resize(index + 1);
  if ((*parameters)[index].is_set) {
    problems_.push_back(MakeString(what, " ", place, " is declared twice: as '",
                                   (*parameters)[index].name, "' and as '", parameter.name, "'"));
  }
  (*parameters)[index] = std::move(parameter);
  return *this;
}

OpSchema& OpSchema::AddAttribute(std::string name, std::string description,
                                 AttributeProto::AttributeType type, bool is_required,
                                 opgraft::AttributeValue fallback) {
  constexpr AttributeProto::AttributeType kCovered[] = {
      AttributeProto::FLOAT,  AttributeProto::INT,  AttributeProto::STRING, AttributeProto::TENSOR,
      AttributeProto::FLOATS, AttributeProto::INTS, AttributeProto::STRINGS};
  if (std::find(std::begin(kCovered), std::end(kCovered), type) == std::end(kCovered)) {
    problems_.push_back("attribute '" + name +
                        "' is of a kind that a pack cannot have; it may have FLOAT, INT, STRING, "
                        "TENSOR, FLOATS, INTS, STRINGS");
  } else if (fallback.index() != 0 && AttributeProto(name, fallback).type() != type) {
    problems_.push_back("the default of attribute '" + name + "' is not of the attribute's kind");
    fallback = {};
  }
  attributes_.push_back(
      {std::move(name), std::move(description), type, is_required, std::move(fallback)});
  return *this;
}

std::unique_ptr<OperatorDefinition> OpSchema::Define() const {
  auto made = std::make_unique<OperatorDefinition>();
  OperatorDefinition& definition = *made;
  definition.domain = domain_;
  definition.name = name_;
  definition.documentation = documentation_;
  definition.since_version = since_version_;
  definition.attributes = attributes_;
  definition.problems = problems_;

  std::map<std::string, const Constraint*> constraints;
  for (const Constraint& constraint : constraints_) {
    if (!constraints.emplace(constraint.name, &constraint).second) {
      definition.problems.push_back("two type constraints are called '" + constraint.name + "'");
    }
  }
  const auto type_of = [&](const Parameter& parameter, const char* what) {
    const std::string who = MakeString(what, " '", parameter.name, "'");
    TypeDefinition type{parameter.type, {}};
    if (const std::int32_t number = FindTensorType(parameter.type); number != 0) {
      type = {"type" + std::to_string(number), {number}};
    } else if (const auto found = constraints.find(parameter.type); found == constraints.end()) {
      definition.problems.push_back(who + " has the type '" + parameter.type +
                                    "', which is neither one of the type constraints nor a type "
                                    "of tensors, such as \"tensor(float)\"");
    } else {
      type.description = found->second->description;
      if (found->second->types.empty()) {
        definition.problems.push_back("type constraint '" + parameter.type + "' allows no type");
      }
      for (const std::string& name : found->second->types) {
        if (const std::int32_t one = FindTensorType(name); one != 0) {
          if (std::find(type.allowed.begin(), type.allowed.end(), one) == type.allowed.end()) {
            type.allowed.push_back(one);
          }
        } else {
          definition.problems.push_back("type constraint '" + parameter.type + "' allows '" + name +
                                        "', but a pack has only tensors, such as "
                                        "\"tensor(float)\"");
        }
      }
    }
    if (parameter.option == Variadic && !parameter.is_homogeneous) {
      type.name += " of " + parameter.name;
      type.is_tied = false;
    }
    return definition.TypeIndex(type);
  };
  const auto fill = [&](const std::vector<Parameter>& from, const char* what,
                        std::vector<ParameterDefinition>* to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      const Parameter& one = from[i];
      if (!one.is_set) {
        definition.problems.push_back(
            MakeString("it has no ", what, " ", i, ", but has a later one"));
        continue;
      }
      if (one.min_arity < 0) {
        definition.problems.push_back(
            MakeString(what, " '", one.name, "' has a minimum arity of ", one.min_arity));
      }
      to->push_back({one.name, one.description, one.option, type_of(one, what),
                     static_cast<std::uint32_t>(std::max(one.min_arity, 0))});
    }
  };
  fill(inputs_, "input", &definition.inputs);
  fill(outputs_, "output", &definition.outputs);
  if (definition.outputs.empty()) definition.problems.emplace_back("it has no output");
  for (const ParameterDefinition& output : definition.outputs) {
    if (!definition.types[output.type].is_tied) {
      definition.problems.push_back("output '" + output.name +
                                    "' is variadic and not homogeneous, which a pack cannot have");
    }
  }
  return made;
}

}  // namespace ONNX_NAMESPACE
