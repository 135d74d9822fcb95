// Schemas in the style of ONNX Runtime's tree:
//
//   ONNX_CONTRIB_OPERATOR_SCHEMA(Inverse)
//       .SetDomain(kMSDomain)
//       .SinceVersion(1)
//       .Input(0, "X", "the matrices", "T")
//       .Output(0, "Y", "their inverses", "T")
//       .TypeConstraint("T", {"tensor(float)", "tensor(double)"}, "floats")
//       .TypeAndShapeInferenceFunction(propagateShapeAndTypeFromFirstInput);
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opgraft/attribute.h"
#include "opgraft/contrib/inference.h"
#include "opgraft/definition.h"

#pragma GCC visibility push(hidden)
namespace ONNX_NAMESPACE {

/// For Attr: the attribute may be absent and has no default.
inline constexpr bool OPTIONAL_VALUE = false;

class OpSchema {
 public:
  enum FormalParameterOption : std::uint8_t { Single = 0, Optional = 1, Variadic = 2 };
  enum class SupportType : std::uint8_t { COMMON, EXPERIMENTAL };

  struct Parameter {
    std::string name;
    std::string description;
    std::string type;  ///< the name of a constraint, or a type such as "tensor(int64)"
    FormalParameterOption option = Single;
    bool is_homogeneous = true;
    int min_arity = 1;
    bool is_set = false;
  };
  struct Constraint {
    std::string name;
    std::vector<std::string> types;
    std::string description;
  };

  OpSchema() = default;
  OpSchema(std::string name, std::string file, int line)
      : name_(std::move(name)), file_(std::move(file)), line_(line) {}

  OpSchema& SetName(std::string name) {
    name_ = std::move(name);
    return *this;
  }
  OpSchema& SetLocation(std::string file, int line) {
    file_ = std::move(file);
    line_ = line;
    return *this;
  }
  OpSchema& SetDomain(std::string domain) {
    domain_ = std::move(domain);
    return *this;
  }
  OpSchema& SinceVersion(int version) {
    since_version_ = version;
    return *this;
  }
  OpSchema& SetDoc(std::string documentation) {
    documentation_ = std::move(documentation);
    return *this;
  }
  OpSchema& SetSupportLevel(SupportType) { return *this; }

  OpSchema& Input(int place, std::string name, std::string description, std::string type,
                  FormalParameterOption option = Single, bool is_homogeneous = true,
                  int min_arity = 1) {
    return Set(&inputs_, place,
               {std::move(name), std::move(description), std::move(type), option, is_homogeneous,
                min_arity, true});
  }
  OpSchema& Output(int place, std::string name, std::string description, std::string type,
                   FormalParameterOption option = Single, bool is_homogeneous = true,
                   int min_arity = 1) {
    return Set(&outputs_, place,
               {std::move(name), std::move(description), std::move(type), option, is_homogeneous,
                min_arity, true});
  }
  OpSchema& TypeConstraint(std::string name, std::vector<std::string> types,
                           std::string description) {
    constraints_.push_back({std::move(name), std::move(types), std::move(description)});
    return *this;
  }

  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 bool required = true) {
    return AddAttribute(std::move(name), std::move(description), type, required, {});
  }
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 I fallback) {
    return AddAttribute(std::move(name), std::move(description), type, false,
                        static_cast<std::int64_t>(fallback));
  }
  template <std::floating_point F>
  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 F fallback) {
    return AddAttribute(std::move(name), std::move(description), type, false,
                        static_cast<float>(fallback));
  }
  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 const char* fallback) {
    return AddAttribute(std::move(name), std::move(description), type, false,
                        std::string(fallback));
  }
  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 std::string fallback) {
    return AddAttribute(std::move(name), std::move(description), type, false, std::move(fallback));
  }
  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 std::vector<std::int64_t> fallback) {
    return AddAttribute(std::move(name), std::move(description), type, false, std::move(fallback));
  }
  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 std::vector<float> fallback) {
    return AddAttribute(std::move(name), std::move(description), type, false, std::move(fallback));
  }
  OpSchema& Attr(std::string name, std::string description, AttributeProto::AttributeType type,
                 std::vector<std::string> fallback) {
    return AddAttribute(std::move(name), std::move(description), type, false, std::move(fallback));
  }

  OpSchema& TypeAndShapeInferenceFunction(InferenceFunction function) {
    inference_ = std::move(function);
    return *this;
  }

  // Types for TypeConstraint.
  static const std::vector<std::string>& all_tensor_types();
  static const std::vector<std::string>& all_numeric_types();
  static const std::vector<std::string>& all_float_types_ir4();
  static const std::vector<std::string>& numeric_types_for_math_reduction();

  const std::string& Name() const { return name_; }
  const std::string& domain() const { return domain_; }
  int since_version() const { return since_version_; }
  const InferenceFunction& inference() const { return inference_; }
  const std::vector<Parameter>& inputs() const { return inputs_; }
  const std::vector<Parameter>& outputs() const { return outputs_; }
  /// Returns an operator definition without kernels.
  std::unique_ptr<opgraft::internal::OperatorDefinition> Define() const;

 private:
  OpSchema& Set(std::vector<Parameter>* parameters, int place, Parameter parameter);
  OpSchema& AddAttribute(std::string name, std::string description,
                         AttributeProto::AttributeType type, bool is_required,
                         opgraft::AttributeValue fallback);

  std::string name_;
  std::string domain_;
  std::string documentation_;
  std::string file_;
  int line_ = 0;
  int since_version_ = 1;
  std::vector<Parameter> inputs_;
  std::vector<Parameter> outputs_;
  std::vector<Constraint> constraints_;
  std::vector<opgraft::internal::AttributeDefinition> attributes_;
  InferenceFunction inference_;
  std::vector<std::string> problems_;
};

/// The result of the schema macros: adds the schema to the pack, which matches it with its kernels
/// when the pack is first used.
class SchemaRegistration {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): the macros end in "= OpSchema(...)"
  SchemaRegistration(const OpSchema& schema) noexcept;
};

}  // namespace ONNX_NAMESPACE

namespace onnxruntime {

inline constexpr const char* kOnnxDomain = "";
inline constexpr const char* kMSDomain = "com.microsoft";
inline constexpr const char* kMLDomain = "ai.onnx.ml";

namespace contrib {

using ONNX_NAMESPACE::AttributeProto;
using ONNX_NAMESPACE::InferenceContext;
using ONNX_NAMESPACE::OpSchema;
using ONNX_NAMESPACE::OPTIONAL_VALUE;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::TensorShapeProto;
using ONNX_NAMESPACE::TypeProto;

}  // namespace contrib
}  // namespace onnxruntime

// A schema may be outside any namespace, as in ONNX Runtime's documentation.
using onnxruntime::kMSDomain;
using onnxruntime::contrib::AttributeProto;
using onnxruntime::contrib::OpSchema;
using onnxruntime::contrib::OPTIONAL_VALUE;
#pragma GCC visibility pop

#define OPGRAFT_CONTRIB_JOIN_(a, b) a##b
#define OPGRAFT_CONTRIB_JOIN(a, b) OPGRAFT_CONTRIB_JOIN_(a, b)

/// Begins a schema, at namespace scope or in a function. The schema ends with a semicolon.
#define ONNX_CONTRIB_OPERATOR_SCHEMA(name)                                                 \
  [[maybe_unused]] static const ::ONNX_NAMESPACE::SchemaRegistration OPGRAFT_CONTRIB_JOIN( \
      opgraft_schema_, __COUNTER__) = ::ONNX_NAMESPACE::OpSchema(#name, __FILE__, __LINE__)

/// The form in newer files of ONNX Runtime's tree: `schema` is OpSchema().Input(...)...
#define ONNX_MS_OPERATOR_SET_SCHEMA(name, version, schema)                                 \
  [[maybe_unused]] static const ::ONNX_NAMESPACE::SchemaRegistration OPGRAFT_CONTRIB_JOIN( \
      opgraft_schema_, __COUNTER__) = (schema)                                             \
                                          .SetName(#name)                                  \
                                          .SetDomain(::onnxruntime::kMSDomain)             \
                                          .SinceVersion(version)                           \
                                          .SetLocation(__FILE__, __LINE__);
