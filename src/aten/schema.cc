// Reads the part of torch's notation that functional operators use.
#include "aten/schema.h"

#include <charconv>
#include <utility>

namespace opgraft::aten {
namespace {

constexpr std::pair<std::string_view, Kind> kKinds[] = {
    {"Tensor", Kind::kTensor}, {"int", Kind::kInt},
    {"SymInt", Kind::kInt},    {"float", Kind::kFloat},
    {"bool", Kind::kBool},     {"Scalar", Kind::kScalar},
    {"str", Kind::kText},      {"ScalarType", Kind::kDtype},
    {"Layout", Kind::kLayout}, {"MemoryFormat", Kind::kMemoryFormat},
    {"Device", Kind::kDevice}, {"Generator", Kind::kGenerator},
};

/// Consumes a text piece by piece.
class SchemaReader {
 public:
  explicit SchemaReader(std::string_view text) : text_(text) {}

  bool Take(std::string_view expected) {
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }

  void SkipBlanks() {
    while (Take(" ")) {
    }
  }

  std::string_view TakeName() {
    std::size_t size = 0;
    while (size < text_.size() && IsNameCharacter(text_[size])) ++size;
    return TakeBytes(size);
  }

  /// Takes the text up to one of these characters outside quotes and square brackets; "" if there
  /// is none.
  std::string_view TakeUntil(std::string_view ends) {
    int depth = 0;
    bool is_quoted = false;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const char character = text_[i];
      if (character == '"') is_quoted = !is_quoted;
      if (is_quoted) continue;
      if (depth == 0 && ends.find(character) != ends.npos) return TakeBytes(i);
      depth += character == '[' ? 1 : character == ']' ? -1 : 0;
    }
    return {};
  }

  bool IsAtEnd() const { return text_.empty(); }

 private:
  static bool IsNameCharacter(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_';
  }

  std::string_view TakeBytes(std::size_t size) {
    const std::string_view taken = text_.substr(0, size);
    text_.remove_prefix(size);
    return taken;
  }

  std::string_view text_;
};

/// Skips the annotation that says which results are views of which arguments: "(a)", "(a -> *)".
bool SkipAlias(SchemaReader* reader) {
  if (!reader->Take("(")) return true;
  reader->TakeUntil(")");
  return reader->Take(")");
}

bool ReadType(SchemaReader* reader, Type* type) {
  const std::string_view name = reader->TakeName();
  bool is_known = false;
  for (const auto& [known, kind] : kKinds) {
    if (known == name) {
      type->kind = kind;
      is_known = true;
    }
  }
  if (!is_known || !SkipAlias(reader)) return false;
  type->is_optional = reader->Take("?");
  if (!reader->Take("[")) return true;
  type->is_list = true;
  type->has_optional_elements = std::exchange(type->is_optional, false);
  const std::string_view count = reader->TakeName();
  std::from_chars(count.data(), count.data() + count.size(), type->count);
  if (!reader->Take("]") || !SkipAlias(reader)) return false;
  type->is_optional = reader->Take("?");
  return true;
}

bool ReadParameters(SchemaReader* reader, std::vector<Parameter>* parameters) {
  bool is_keyword = false;
  if (reader->Take(")")) return true;
  while (true) {
    if (reader->Take("*, ")) is_keyword = true;
    Parameter parameter;
    parameter.is_keyword = is_keyword;
    if (!ReadType(reader, &parameter.type) || !reader->Take(" ")) return false;
    parameter.name = reader->TakeName();
    if (parameter.name.empty()) return false;
    if (reader->Take("=")) {
      parameter.default_text = reader->TakeUntil(",)");
      if (parameter.default_text.empty()) return false;
    }
    parameters->push_back(parameter);
    if (!reader->Take(", ")) return reader->Take(")");
  }
}

bool ReadResults(SchemaReader* reader, std::vector<Result>* results) {
  const bool is_tuple = reader->Take("(");
  if (is_tuple && reader->Take(")")) return true;
  do {
    Result& result = results->emplace_back();
    if (!ReadType(reader, &result.type)) return false;
    if (is_tuple && reader->Take(" ")) result.name = reader->TakeName();
  } while (is_tuple && reader->Take(", "));
  return !is_tuple || reader->Take(")");
}

}  // namespace

std::string_view NameOf(Kind kind) {
  for (const auto& [name, known] : kKinds) {
    if (known == kind) return name;
  }
  return "";
}

std::string Type::Text() const {
  std::string text(NameOf(kind));
  if (is_list) {
    text += has_optional_elements ? "?[" : "[";
    if (count != 0) text += std::to_string(count);
    text += ']';
  }
  return text + (is_optional ? "?" : "");
}

std::string Schema::FullName() const {
  return "aten::" + std::string(name) + (overload.empty() ? "" : "." + std::string(overload));
}

bool ReadSchema(std::string_view text, Schema* schema) {
  *schema = Schema();
  SchemaReader reader(text);
  schema->name = reader.TakeName();
  if (reader.Take(".")) schema->overload = reader.TakeName();
  return !schema->name.empty() && reader.Take("(") &&
         ReadParameters(&reader, &schema->parameters) && reader.Take(" -> ") &&
         ReadResults(&reader, &schema->results) && reader.IsAtEnd();
}

}  // namespace opgraft::aten
