// The parameters and results of an ATen operator, read from torch's own notation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opgraft::aten {

enum class Kind : std::uint8_t {
  kTensor,
  kInt,
  kFloat,
  kBool,
  kScalar,  ///< an int, a float, a bool or a complex number
  kText,
  kDtype,
  kLayout,
  kMemoryFormat,
  kDevice,
  kGenerator,  ///< always omitted
};

/// Returns the name in messages and schemas: "Tensor", "int", "str"...
std::string_view NameOf(Kind kind);

struct Type {
  Kind kind = Kind::kTensor;
  bool is_list = false;
  bool is_optional = false;            ///< for a list: the list as a whole
  bool has_optional_elements = false;  ///< for a list
  std::int64_t count = 0;              ///< for a list that a single value may stand for; else 0

  /// As the schema writes it: "Tensor?[]".
  std::string Text() const;
};

struct Parameter {
  std::string_view name;
  Type type;
  bool is_keyword = false;
  std::string_view default_text;  ///< in the notation of docs/aten.md; "" if there is none
};

struct Result {
  std::string_view name;  ///< "" if it has none
  Type type;
};

/// Its strings are views of the text that it was read from.
struct Schema {
  std::string_view name;  ///< without a namespace
  std::string_view overload;
  std::vector<Parameter> parameters;
  std::vector<Result> results;

  std::string FullName() const;  ///< "aten::median.dim"
};

/// Reads a schema such as "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values,
/// Tensor indices)". Returns false if the text is not a schema or has an unknown type.
bool ReadSchema(std::string_view text, Schema* schema);

}  // namespace opgraft::aten
