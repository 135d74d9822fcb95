// The checks that every PyOp node must pass, whoever wrote it.
#include "model/python_spec.h"

#include <algorithm>
#include <numeric>

#include "base/element_type.h"
#include "base/text.h"
#include "core/policy.h"

namespace opgraft::pyop {
namespace {

std::string Quoted(std::string_view text) { return "'" + ReadableName(text) + "'"; }

std::string QuotedOrMissing(std::string_view text) {
  return text.empty() ? "missing" : Quoted(text);
}

/// Whether `places` name each of the values once, in order or, if `in_any_order`, in any order.
/// Absent values may be in between.
bool NamesEachOnce(std::vector<std::int64_t> places, std::size_t values, bool in_any_order) {
  std::erase(places, kUnknown);
  if (in_any_order) std::sort(places.begin(), places.end());
  std::vector<std::int64_t> all(values);
  std::iota(all.begin(), all.end(), 0);
  return places == all;
}

/// Whether a name from the model is safe: special methods, and what they reach, are not allowed.
bool IsPlainName(std::string_view name) {
  return IsDottedName(name) && !name.starts_with("__") && name.find(".__") == name.npos;
}

Status CheckTypes(const Spec& spec, const std::string& attribute, const char* whose,
                  const std::vector<std::int64_t>& types, std::size_t expected) {
  if (types.size() != expected) {
    return Status::Model(spec.Who() + ": attribute '" + attribute + "' names " +
                         std::to_string(types.size()) + " types, expected " +
                         std::to_string(expected) + ", one for each of the node's " + whose);
  }
  for (const std::int64_t type : types) {
    if (type == 0 && spec.IsDeclared()) continue;
    const ElementType* known = FindElementType(type);
    if (known == nullptr || type == 0) {
      return Status::Model(spec.Who() + ": attribute '" + attribute + "' holds " +
                           std::to_string(type) +
                           ", which is not an ONNX type; expected a number of "
                           "onnx.TensorProto, such as TensorProto.FLOAT");
    }
    if (!known->is_carried) {
      return Status::Model(
          spec.Who() + ": attribute '" + attribute + "' asks for " + std::string(known->name) +
          ", but ONNX Runtime has no tensors of that type; expected bool, int4 to int64, uint4 to "
          "uint64, float16 to float64, bfloat16, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, "
          "float8_e5m2fnuz, float4_e2m1fn or string");
    }
  }
  return Status();
}

}  // namespace

std::string Spec::Who() const {
  if (IsDeclared() && node.empty()) return ReadableName(operator_name);
  const std::string named =
      (module.empty() ? "?" : module) + "." + (class_name.empty() ? "?" : class_name);
  return "node " + Quoted(node) + ", operator " +
         ReadableName(IsDeclared() ? operator_name : named);
}

std::size_t Spec::Places(std::size_t inputs) const {
  return input_places.empty() ? inputs : input_places.size();
}

Status Check(const Spec& spec, std::size_t inputs, std::size_t outputs) {
  if (!IsDottedName(spec.module)) {
    return Status::Model(spec.Who() + ": attribute 'module' is " + QuotedOrMissing(spec.module) +
                         ", expected an absolute module name such as 'package.module'");
  }
  if (spec.IsDeclared() && spec.operator_name.find("::") == spec.operator_name.npos) {
    return Status::Model(spec.Who() + ": attribute 'operator' is " + Quoted(spec.operator_name) +
                         ", expected 'domain::Name'");
  }
  if (!spec.IsDeclared() && !IsPlainName(spec.class_name)) {
    return Status::Model(spec.Who() + ": attribute 'class_name' is " +
                         QuotedOrMissing(spec.class_name) +
                         ", expected the name of a class, without leading '__'");
  }
  if (!IsPlainName(spec.compute) || spec.compute.find('.') != std::string::npos) {
    return Status::Model(spec.Who() + ": attribute 'compute' is " + Quoted(spec.compute) +
                         ", expected the name of a method, without leading '__'");
  }
  if (!spec.input_places.empty() && !NamesEachOnce(spec.input_places, inputs, spec.IsDeclared())) {
    return Status::Model(spec.Who() + ": attribute 'input_places' does not name each of the " +
                         std::to_string(inputs) + " inputs once" +
                         (spec.IsDeclared() ? "" : ", in order"));
  }
  if (!spec.output_places.empty() && !NamesEachOnce(spec.output_places, outputs, true)) {
    return Status::Model(spec.Who() + ": attribute 'output_places' does not name each of the " +
                         std::to_string(outputs) + " outputs once");
  }
  if (!spec.input_types.empty()) {
    Status status =
        CheckTypes(spec, attribute::kInputTypes, "inputs", spec.input_types, spec.Places(inputs));
    if (!status.ok()) return status;
  }
  const bool follows_input =
      std::find(spec.output_types.begin(), spec.output_types.end(), 0) != spec.output_types.end();
  if (follows_input && inputs == 0) {
    return Status::Model(spec.Who() +
                         ": an output has the type of the first input, but the node has no inputs");
  }
  if (outputs > 0 && spec.output_types.empty()) {
    return Status::Model(spec.Who() + ": attribute 'output_types' is missing; expected " +
                         std::to_string(outputs) + " types, such as output_types=" +
                         "[TensorProto.FLOAT], one for each of the node's outputs");
  }
  if (!spec.output_shapes.empty() && spec.output_shapes.size() != outputs) {
    return Status::Model(spec.Who() + ": attribute 'output_shapes' holds " +
                         std::to_string(spec.output_shapes.size()) + " shapes, expected " +
                         std::to_string(outputs));
  }
  return CheckTypes(spec, attribute::kOutputTypes, "outputs", spec.output_types, outputs);
}

std::vector<std::int64_t> Pack(const std::vector<DeclaredShape>& shapes) {
  std::vector<std::int64_t> packed;
  for (const DeclaredShape& shape : shapes) {
    packed.push_back(shape ? static_cast<std::int64_t>(shape->size()) : kUnknown);
    if (shape) packed.insert(packed.end(), shape->begin(), shape->end());
  }
  return packed;
}

bool Unpack(const std::vector<std::int64_t>& packed, std::vector<DeclaredShape>* shapes) {
  shapes->clear();
  for (auto next = packed.begin(); next != packed.end();) {
    const std::int64_t rank = *next++;
    if (rank < kUnknown || rank > packed.end() - next) return false;
    if (rank == kUnknown) {
      shapes->emplace_back();
    } else {
      shapes->emplace_back(std::vector<std::int64_t>(next, next + rank));
      next += rank;
    }
  }
  return true;
}

}  // namespace opgraft::pyop
