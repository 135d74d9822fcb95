// Reads the arguments and results of an ATen node in the notation of docs/aten.md.
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
  kDevice,  ///< named by `text`
  kTensor,  ///< an input of the node
  kComplexTensor,
  kNumberOf,   ///< the single number that an input holds
  kNumbersOf,  ///< the numbers of an input with one dimension, as a list
  kList,
};

/// A value as the node's text has it.
struct Written {
  Form form = Form::kNull;
  std::int64_t integer = 0;  ///< 0 or 1 for kBool; for inputs the index of the input
  double real = 0;
  double imaginary = 0;
  std::string text;
  std::vector<Written> items;

  bool IsInput() const { return form >= Form::kTensor && form <= Form::kNumbersOf; }
};

struct WrittenArgument {
  std::string name;  ///< "" for a positional argument
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
  std::vector<Tensor> tensors;  ///< a single one for kTensor
};

/// Reads the attribute `arguments`. If it is malformed, returns a ModelError that begins with `who`
/// and says where.
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

/// Returns the outputs of the node that the results become, in order.
std::vector<NodeOutput> OutputsOf(const std::vector<WrittenResult>& results);

}  // namespace opgraft::aten
