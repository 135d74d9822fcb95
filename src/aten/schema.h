// What an operator of ATen takes and gives, read from torch's own notation.
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
  kGenerator,  ///< always left out
};

/// The name that messages and schemas give it: "Tensor", "int", "str"...
std::string_view NameOf(Kind kind);

struct Type {
  Kind kind = Kind::kTensor;
  bool is_list = false;
  bool is_optional = false;            ///< of a list: the whole of it
  bool has_optional_elements = false;  ///< of a list
  std::int64_t count = 0;              ///< of a list that one value may stand for; else 0

  /// As the schema writes it: "Tensor?[]".
  std::string Text() const;
};

struct Parameter {
  std::string_view name;
  Type type;
  bool is_keyword = false;
  std::string_view default_text;  ///< "" where there is none; as docs/aten.md writes values
};

struct Result {
  std::string_view name;  ///< "" where it has none
  Type type;
};

/// Views of the text that it was read from.
struct Schema {
  std::string_view name;  ///< without a namespace
  std::string_view overload;
  std::vector<Parameter> parameters;
  std::vector<Result> results;

  std::string FullName() const;  ///< "aten::median.dim"
};

/// Reads a schema such as "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values,
/// Tensor indices)". False for what is none, or has a type that is not known here.
bool ReadSchema(std::string_view text, Schema* schema);

}  // namespace opgraft::aten
