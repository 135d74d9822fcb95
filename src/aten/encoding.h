// The arguments and outputs of an ATen node, as docs/aten.md writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "aten/dtype.h"
#include "core/schema.h"
#include "opgraft/status.h"

namespace opgraft::aten {

/// How an argument is written.
enum class Form : std::uint8_t {
  kNull,
  kBool,
  kInt,
  kFloat,
  kComplex,
  kText,
  kName,    ///< torch.name: a dtype, a layout or a memory format
  kDevice,  ///< by `text`
  kTensor,  ///< an input of the node
  kComplexTensor,
  kNumberOf,   ///< the one number that an input holds
  kNumbersOf,  ///< those that an input of one dimension holds, as a list
  kList,
};

/// A value as it is written.
struct Written {
  Form form = Form::kNull;
  std::int64_t integer = 0;  ///< of kBool 0 or 1, of what is an input its place
  double real = 0;
  double imaginary = 0;
  std::string text;
  std::vector<Written> items;

  bool IsInput() const { return form >= Form::kTensor && form <= Form::kNumbersOf; }
};

struct WrittenArgument {
  std::string name;  ///< "" for one that stands at its place
  Written value;
};

/// A result of the operator.
struct WrittenResult {
  enum class Form : std::uint8_t { kTensor, kList, kInt, kFloat, kBool, kNull };
  struct Tensor {
    const Dtype* dtype = nullptr;
    SymbolicShape shape;
  };

  Form form = Form::kTensor;
  std::vector<Tensor> tensors;  ///< one for kTensor
};

/// Reads the attribute `arguments`; a ModelError that begins with `who` says where it is no such.
Status ReadArguments(std::string_view text, const std::string& who,
                     std::vector<WrittenArgument>* arguments);

/// Reads one value, such as a schema's default.
Status ReadWritten(std::string_view text, const std::string& who, Written* value);

/// Reads the attribute `results`.
Status ReadResults(std::string_view text, const std::string& who,
                   std::vector<WrittenResult>* results);

/// An output of the node: its type and shape in ONNX.
struct NodeOutput {
  int element_type = 0;
  SymbolicShape shape;
};

/// What the results are as outputs of the node, in order.
std::vector<NodeOutput> OutputsOf(const std::vector<WrittenResult>& results);

}  // namespace opgraft::aten
