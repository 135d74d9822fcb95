// A recursive descent over the text, which writes protobuf as it goes.
#include "model/function_text.h"

#include <charconv>
#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <stdexcept>
#include <vector>

#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

constexpr std::int32_t kFloatElement = 1;
constexpr std::int32_t kInt64Element = 7;
constexpr std::int32_t kBoolElement = 9;

/// Thrown for a text that is wrong, and caught here.
struct SyntaxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool IsSpace(char character) {
  return character == ' ' || character == '\n' || character == '\t' || character == '\r';
}

bool IsWord(char character) {
  return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') ||
         (character >= 'A' && character <= 'Z') || character == '_' || character == '.';
}

class FunctionReader {
 public:
  explicit FunctionReader(std::string_view text) : text_(text) {}

  FunctionText Function();

 private:
  using Writer = protozero::pbf_writer;
  using Names = std::vector<std::string_view>;

  [[noreturn]] void Fail(const std::string& expected) const;
  void SkipSpaces();
  bool IsNext(std::string_view mark);
  bool Take(std::string_view mark);
  void Expect(std::string_view mark);
  std::string_view Word();
  std::string_view Number();
  std::string Quoted();
  Names List();

  /// Reads "= value", and writes the AttributeProto `name`.
  std::string Attribute(std::string_view name, std::string_view kind);
  std::string_view Kind();
  void Value(std::string_view kind, Writer* attribute);
  void Sequence(std::string_view kind, Writer* attribute);
  std::string Tensor();
  std::string Type(std::string_view element);
  std::string Graph();
  void Attributes(Writer* node);
  std::string Node();
  void Nodes(std::uint32_t tag, Writer* out);

  const std::string_view text_;
  std::size_t place_ = 0;
};

void FunctionReader::Fail(const std::string& expected) const {
  throw SyntaxError("expected " + expected + " at '" + std::string(text_.substr(place_, 40)) + "'");
}

void FunctionReader::SkipSpaces() {
  while (place_ < text_.size() && IsSpace(text_[place_])) ++place_;
}

bool FunctionReader::IsNext(std::string_view mark) {
  SkipSpaces();
  return text_.substr(place_).starts_with(mark);
}

bool FunctionReader::Take(std::string_view mark) {
  if (!IsNext(mark)) return false;
  place_ += mark.size();
  return true;
}

void FunctionReader::Expect(std::string_view mark) {
  if (!Take(mark)) Fail("'" + std::string(mark) + "'");
}

std::string_view FunctionReader::Word() {
  SkipSpaces();
  const std::size_t start = place_;
  while (place_ < text_.size() && IsWord(text_[place_])) ++place_;
  if (start == place_) Fail("a name");
  return text_.substr(start, place_ - start);
}

std::string_view FunctionReader::Number() {
  SkipSpaces();
  const std::size_t start = place_;
  while (place_ < text_.size() &&
         (IsWord(text_[place_]) || text_[place_] == '-' || text_[place_] == '+')) {
    ++place_;
  }
  return text_.substr(start, place_ - start);
}

std::string FunctionReader::Quoted() {
  Expect("\"");
  const std::size_t end = text_.find('"', place_);
  if (end == std::string_view::npos) Fail("a closing quotation mark");
  std::string quoted(text_.substr(place_, end - place_));
  place_ = end + 1;
  return quoted;
}

/// Reads "(a, "", c)".
FunctionReader::Names FunctionReader::List() {
  Names names;
  Expect("(");
  while (!Take(")")) {
    if (!names.empty()) Expect(",");
    names.push_back(Take("\"\"") ? std::string_view() : Word());
  }
  return names;
}

template <class Value>
Value ParseNumber(std::string_view text) {
  Value value{};
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    throw SyntaxError("'" + std::string(text) + "' is not a number");
  }
  return value;
}

/// Reads ": float", if it is there.
std::string_view FunctionReader::Kind() { return Take(":") ? Word() : std::string_view(); }

std::string FunctionReader::Attribute(std::string_view name, std::string_view kind) {
  std::string written;
  Writer attribute(written);
  attribute.add_string(tag::kAttributeName, name.data(), name.size());
  Expect("=");
  if (Take("@")) {
    const std::string_view reference = Word();
    attribute.add_string(tag::kAttributeReference, reference.data(), reference.size());
    constexpr std::pair<std::string_view, tag::AttributeType> kKinds[] = {
        {"float", tag::kFloat},   {"int", tag::kInt},
        {"string", tag::kString}, {"floats", tag::kFloats},
        {"ints", tag::kInts},     {"strings", tag::kStrings},
        {"tensor", tag::kTensor}, {"graph", tag::kGraphAttribute}};
    for (const auto& [known, type] : kKinds) {
      if (kind == known) attribute.add_enum(tag::kAttributeType, type);
    }
  } else {
    Value(kind, &attribute);
  }
  return written;
}

void FunctionReader::Value(std::string_view kind, Writer* attribute) {
  if (IsNext("\"")) {
    attribute->add_bytes(tag::kAttributeString, Quoted());
    return attribute->add_enum(tag::kAttributeType, tag::kString);
  }
  if (IsNext("[")) return Sequence(kind, attribute);
  if (kind == "tensor") {
    attribute->add_message(tag::kAttributeTensor, Tensor());
    return attribute->add_enum(tag::kAttributeType, tag::kTensor);
  }
  if (kind == "graph") {
    attribute->add_message(tag::kAttributeGraph, Graph());
    return attribute->add_enum(tag::kAttributeType, tag::kGraphAttribute);
  }
  const std::string_view number = Number();
  if (kind == "float" || (kind.empty() && number.find_first_of(".en") != number.npos)) {
    attribute->add_float(tag::kAttributeFloat, ParseNumber<float>(number));
    return attribute->add_enum(tag::kAttributeType, tag::kFloat);
  }
  attribute->add_int64(tag::kAttributeInt, ParseNumber<std::int64_t>(number));
  attribute->add_enum(tag::kAttributeType, tag::kInt);
}

void FunctionReader::Sequence(std::string_view kind, Writer* attribute) {
  Expect("[");
  bool is_first = true;
  while (!Take("]")) {
    if (!is_first) Expect(",");
    is_first = false;
    if (kind == "floats") {
      attribute->add_float(tag::kAttributeFloats, ParseNumber<float>(Number()));
    } else {
      attribute->add_int64(tag::kAttributeInts, ParseNumber<std::int64_t>(Number()));
    }
  }
  attribute->add_enum(tag::kAttributeType, kind == "floats" ? tag::kFloats : tag::kInts);
}

/// Reads "int64[2] {1, 2}".
std::string FunctionReader::Tensor() {
  const std::string_view type = Word();
  std::string tensor;
  Writer writer(tensor);
  if (Take("[")) {
    while (!Take("]")) {
      writer.add_int64(tag::kTensorDimensions, ParseNumber<std::int64_t>(Number()));
      Take(",");
    }
  }
  const bool is_float = type == "float";
  if (!is_float && type != "int64") Fail("a tensor of float or int64");
  writer.add_int32(tag::kTensorDataType, is_float ? kFloatElement : kInt64Element);
  Expect("{");
  bool is_first = true;
  while (!Take("}")) {
    if (!is_first) Expect(",");
    is_first = false;
    if (is_float) {
      writer.add_float(tag::kTensorFloats, ParseNumber<float>(Number()));
    } else {
      writer.add_int64(tag::kTensorInt64s, ParseNumber<std::int64_t>(Number()));
    }
  }
  return tensor;
}

/// Reads the rest of "float[_, _]", in which the sizes are unknown, or of "int64", a scalar.
std::string FunctionReader::Type(std::string_view element) {
  std::string tensor;
  Writer writer(tensor);
  const bool is_known = element == "int64" || element == "bool" || element == "float";
  if (!is_known) Fail("the type int64, bool or float before a name");
  writer.add_int32(tag::kElementType, element == "int64"  ? kInt64Element
                                      : element == "bool" ? kBoolElement
                                                          : kFloatElement);
  std::string shape;
  if (Take("[")) {
    do {
      Expect("_");
      Writer(shape).add_message(tag::kDimension, std::string());
    } while (Take(","));
    Expect("]");
  }
  writer.add_message(tag::kTensorShape, shape);
  return tensor;
}

/// Reads "name (int64 step, state) => (y) { ... }".
std::string FunctionReader::Graph() {
  std::string graph;
  Writer writer(graph);
  const std::string_view name = Word();
  const auto value = [&](std::uint32_t tag) {
    std::string_view word = Word();
    std::string type;
    if (!IsNext(",") && !IsNext(")")) {
      protozero::pbf_writer(type).add_message(tag::kTensorType, Type(word));
      word = Word();
    }
    std::string info;
    Writer info_writer(info);
    info_writer.add_string(tag::kValueName, word.data(), word.size());
    if (!type.empty()) info_writer.add_message(tag::kValueType, type);
    writer.add_message(tag, info);
  };
  for (const std::uint32_t side : {tag::kGraphInput, tag::kGraphOutput}) {
    Expect("(");
    bool is_first = true;
    while (!Take(")")) {
      if (!is_first) Expect(",");
      is_first = false;
      value(side);
    }
    if (side == tag::kGraphInput) Expect("=>");
  }
  Nodes(tag::kGraphNode, &writer);
  constexpr std::uint32_t kGraphName = 2;
  writer.add_string(kGraphName, name.data(), name.size());
  return graph;
}

void FunctionReader::Attributes(Writer* node) {
  if (!Take("<")) return;
  bool is_first = true;
  while (!Take(">")) {
    if (!is_first) Expect(",");
    is_first = false;
    const std::string_view name = Word();
    node->add_message(tag::kNodeAttribute, Attribute(name, Kind()));
  }
}

std::string FunctionReader::Node() {
  std::string node;
  Writer writer(node);
  Names outputs;
  do outputs.push_back(Take("\"\"") ? std::string_view() : Word());
  while (Take(","));
  Expect("=");
  const std::string_view op_type = Word();
  Attributes(&writer);
  for (const std::string_view input : List()) {
    writer.add_string(tag::kNodeInput, input.data(), input.size());
  }
  Attributes(&writer);
  for (const std::string_view output : outputs) {
    writer.add_string(tag::kNodeOutput, output.data(), output.size());
  }
  writer.add_string(tag::kNodeName, outputs[0].data(), outputs[0].size());
  writer.add_string(tag::kNodeOpType, op_type.data(), op_type.size());
  return node;
}

void FunctionReader::Nodes(std::uint32_t tag, Writer* out) {
  Expect("{");
  while (!Take("}")) out->add_message(tag, Node());
}

FunctionText FunctionReader::Function() {
  FunctionText function;
  Writer writer(function.bytes);
  const std::string_view name = Word();
  writer.add_string(tag::kFunctionName, name.data(), name.size());
  if (Take("<")) {
    while (!Take(">")) {
      if (!function.attributes.empty()) Expect(",");
      const std::string_view attribute = Word();
      const std::string_view kind = Kind();
      function.attributes.emplace(attribute);
      if (IsNext("=")) {
        writer.add_message(tag::kFunctionAttributeDefault, Attribute(attribute, kind));
      }
    }
  }
  Expect("(");
  while (!Take(")")) {
    if (!function.is_required.empty()) Expect(",");
    const std::string_view input = Word();
    writer.add_string(tag::kFunctionInput, input.data(), input.size());
    function.is_required.push_back(!Take("?"));
  }
  Expect("=>");
  for (const std::string_view output : List()) {
    writer.add_string(tag::kFunctionOutput, output.data(), output.size());
  }
  Nodes(tag::kFunctionNode, &writer);
  SkipSpaces();
  if (place_ != text_.size()) Fail("the end");
  return function;
}

}  // namespace

Status ReadFunctionText(std::string_view text, FunctionText* function) {
  try {
    *function = FunctionReader(text).Function();
    return Status();
  } catch (const SyntaxError& error) {
    return Status::Error("the body of an operator that Opgraft has is wrong: " +
                         std::string(error.what()));
  }
}

}  // namespace opgraft::model
