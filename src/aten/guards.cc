// What was found to crash libtorch when operators were called with arguments that make no sense
// (tests/aten_operators.py).
#include "aten/guards.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace opgraft::aten {
namespace {

template <class T>
T At(const InputTensor& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(tensor.data) + index * sizeof(T), sizeof(T));
  return value;
}

/// Whether all integers of a tensor lie between the two, both included. Tensors of other types do:
/// the operator itself refuses them.
bool LieWithin(const InputTensor& tensor, std::int64_t least, std::int64_t most) {
  const std::size_t count = Count(tensor.shape);
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<std::int64_t> value = ReadInteger(tensor, i);
    if (value && (*value < least || *value > most)) return false;
  }
  return true;
}

std::int64_t SizeFromEnd(const InputTensor& tensor, std::size_t from_end) {
  const std::size_t rank = tensor.shape.size();
  return rank >= from_end ? tensor.shape[rank - from_end] : 0;
}

std::string CheckLabels(const NamedArguments& arguments) {
  const InputTensor* const scores = arguments.FindTensor("log_probs");
  const InputTensor* const targets = arguments.FindTensor("targets");
  const std::optional<std::int64_t> blank = arguments.FindInteger("blank");
  if (scores == nullptr || targets == nullptr) return "";
  const std::int64_t classes = SizeFromEnd(*scores, 1);
  if (!LieWithin(*targets, 0, classes - 1) || (blank && (*blank < 0 || *blank >= classes))) {
    return "expected targets and blank from 0 to " + std::to_string(classes - 1) +
           ", one of which each element of log_probs' last dimension stands for";
  }
  return "";
}

std::string CheckStatistics(const NamedArguments& arguments) {
  const bool is_training = arguments.FindInteger("training").value_or(0) != 0;
  const bool has_statistics = arguments.FindTensor("running_mean") != nullptr &&
                              arguments.FindTensor("running_var") != nullptr;
  if (!is_training && !has_statistics) {
    return "expected training=true, or running_mean and running_var, came neither";
  }
  const InputTensor* const input = arguments.FindTensor("input");
  if (input == nullptr) return "";
  const std::int64_t channels = input->shape.size() < 2 ? -1 : input->shape[1];
  for (const char* const name : {"weight", "bias", "running_mean", "running_var"}) {
    const InputTensor* const tensor = arguments.FindTensor(name);
    if (tensor == nullptr) continue;
    if (tensor->shape.size() != 1 || tensor->shape[0] != channels) {
      return "expected " + std::string(name) + " to have one number for each channel of the input";
    }
  }
  return "";
}

std::string CheckNotSmallest(const NamedArguments& arguments) {
  for (const char* const name : {"self", "other"}) {
    const InputTensor* const tensor = arguments.FindTensor(name);
    if (tensor == nullptr) continue;
    const std::int64_t smallest = tensor->element_type == 7
                                      ? std::numeric_limits<std::int64_t>::min()
                                      : std::numeric_limits<std::int32_t>::min();
    if (!LieWithin(*tensor, smallest + 1, std::numeric_limits<std::int64_t>::max())) {
      return "expected integers whose opposite can be had, came the smallest of its type";
    }
  }
  return "";
}

/// The rows that were swapped, counted from 1: of as many as the matrix has.
std::string CheckSwaps(const InputTensor* matrix, const InputTensor* pivots) {
  if (matrix == nullptr || pivots == nullptr) return "";
  const std::int64_t rows = SizeFromEnd(*matrix, 2);
  const std::int64_t expected = std::min(rows, SizeFromEnd(*matrix, 1));
  if (SizeFromEnd(*pivots, 1) == expected && LieWithin(*pivots, 1, rows)) return "";
  return "expected " + std::to_string(expected) + " pivots from 1 to " + std::to_string(rows) +
         " for each matrix";
}

/// Whether there is one row of pivots for each matrix.
bool IsRowForEach(const InputTensor& matrix, const InputTensor& pivots) {
  return matrix.shape.size() >= 2 && pivots.shape.size() + 1 == matrix.shape.size() &&
         std::equal(pivots.shape.begin(), pivots.shape.end() - 1, matrix.shape.begin());
}

std::string CheckFactorsOfUnpack(const NamedArguments& arguments) {
  const InputTensor* const matrix = arguments.FindTensor("LU_data");
  const InputTensor* const pivots = arguments.FindTensor("LU_pivots");
  if (matrix != nullptr && pivots != nullptr && !IsRowForEach(*matrix, *pivots)) {
    return "expected one row of pivots for each matrix";
  }
  return CheckSwaps(matrix, pivots);
}

std::string CheckFactorsOfOldSolve(const NamedArguments& arguments) {
  return CheckSwaps(arguments.FindTensor("LU_data"), arguments.FindTensor("LU_pivots"));
}

std::string CheckFactorsOfSolve(const NamedArguments& arguments) {
  return CheckSwaps(arguments.FindTensor("LU"), arguments.FindTensor("pivots"));
}

/// LAPACK's pivots of LDL: k > 0 for a swap, twice the same -k for a block of two rows.
std::string CheckBlocks(const NamedArguments& arguments) {
  const InputTensor* const pivots = arguments.FindTensor("pivots");
  const InputTensor* const matrix = arguments.FindTensor("LD");
  if (pivots == nullptr || matrix == nullptr || pivots->element_type != 6) return "";
  const std::int64_t rows = SizeFromEnd(*matrix, 1);
  bool is_good = IsRowForEach(*matrix, *pivots) && SizeFromEnd(*pivots, 1) == rows &&
                 LieWithin(*pivots, -rows, rows);
  const std::size_t count = Count(pivots->shape);
  for (std::size_t i = 0; is_good && i < count; ++i) {
    const auto pivot = At<std::int32_t>(*pivots, i);
    if (pivot > 0) continue;
    const bool is_last = static_cast<std::int64_t>(i + 1) % rows == 0;
    is_good = pivot < 0 && !is_last && At<std::int32_t>(*pivots, i + 1) == pivot;
    ++i;
  }
  if (is_good) return "";
  return "expected " + std::to_string(rows) +
         " pivots for each matrix, as linalg_ldl_factor gives them";
}

/// Segments must lie within the data, whatever `unsafe` says.
std::string CheckSegments(const NamedArguments& arguments) {
  const InputTensor* const data = arguments.FindTensor("data");
  if (data == nullptr) return "";
  if (arguments.FindTensor("indices") != nullptr)
    return "expected lengths or offsets, came indices";
  const std::int64_t axis = arguments.FindInteger("axis").value_or(0);
  const auto rank = static_cast<std::int64_t>(data->shape.size());
  if (axis < 0 || axis >= rank) return "expected an axis of the data";
  const std::int64_t size = data->shape[static_cast<std::size_t>(axis)];
  for (const char* const name : {"lengths", "offsets"}) {
    const InputTensor* const tensor = arguments.FindTensor(name);
    if (tensor == nullptr) continue;
    const bool is_row = static_cast<std::int64_t>(tensor->shape.size()) == axis + 1;
    bool is_good =
        is_row && LieWithin(*tensor, 0, size) &&
        std::equal(tensor->shape.begin(), tensor->shape.end() - 1, data->shape.begin()) &&
        (tensor->element_type == 7 || tensor->element_type == 6);
    const std::int64_t row = is_row ? tensor->shape.back() : 0;
    const bool is_offsets = std::strcmp(name, "offsets") == 0;
    std::int64_t sum = 0;
    for (std::size_t i = 0; is_good && i < Count(tensor->shape); ++i) {
      const std::int64_t value =
          tensor->element_type == 7 ? At<std::int64_t>(*tensor, i) : At<std::int32_t>(*tensor, i);
      if (static_cast<std::int64_t>(i) % row == 0) sum = 0;
      is_good = is_offsets ? value >= sum : sum + value <= size;
      sum = is_offsets ? value : sum + value;
    }
    if (!is_good) {
      return "expected " + std::string(name) + " of segments of the data's dimension " +
             std::to_string(axis) + ", which has " + std::to_string(size) + " elements";
    }
  }
  return "";
}

std::string CheckLayers(const NamedArguments& arguments) {
  const std::int64_t layers = arguments.FindInteger("num_layers").value_or(0);
  const bool is_twofold = arguments.FindInteger("bidirectional").value_or(0) != 0;
  const bool has_biases = arguments.FindInteger("has_biases").value_or(0) != 0;
  const auto params = static_cast<std::int64_t>(arguments.CountOf("params"));
  const std::int64_t cells = layers * (is_twofold ? 2 : 1);
  const std::int64_t each = has_biases ? 4 : 2;
  if (layers >= 1 && layers <= 1024 && (params == cells * each || params == cells * (each + 1))) {
    return "";
  }
  return "expected num_layers, has_biases and bidirectional that fit the number of params";
}

constexpr std::pair<std::string_view, Guard> kGuards[] = {
    {"ctc_loss", CheckLabels},
    {"_ctc_loss", CheckLabels},
    {"batch_norm", CheckStatistics},
    {"native_batch_norm", CheckStatistics},
    {"_native_batch_norm_legit", CheckStatistics},
    {"_native_batch_norm_legit_functional", CheckStatistics},
    {"gcd", CheckNotSmallest},
    {"lcm", CheckNotSmallest},
    {"lu_unpack", CheckFactorsOfUnpack},
    {"lu_solve", CheckFactorsOfOldSolve},
    {"linalg_lu_solve", CheckFactorsOfSolve},
    {"linalg_ldl_solve", CheckBlocks},
    {"segment_reduce", CheckSegments},
    {"lstm", CheckLayers},
    {"gru", CheckLayers},
    {"rnn_tanh", CheckLayers},
    {"rnn_relu", CheckLayers},
};

}  // namespace

const Written* NamedArguments::Find(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found != names_.end() ? &written_[static_cast<std::size_t>(found - names_.begin())]
                               : nullptr;
}

const InputTensor* NamedArguments::FindTensor(std::string_view name) const {
  const Written* const written = Find(name);
  const bool is_tensor = written != nullptr &&
                         (written->form == Form::kTensor || written->form == Form::kComplexTensor);
  return is_tensor ? &inputs_[static_cast<std::size_t>(written->integer)] : nullptr;
}

std::optional<std::int64_t> NamedArguments::FindInteger(std::string_view name) const {
  const Written* const written = Find(name);
  if (written == nullptr) return std::nullopt;
  if (written->form == Form::kInt || written->form == Form::kBool) return written->integer;
  if (written->form != Form::kNumberOf) return std::nullopt;
  const InputTensor& input = inputs_[static_cast<std::size_t>(written->integer)];
  return Count(input.shape) == 1 ? ReadInteger(input, 0) : std::nullopt;
}

std::size_t NamedArguments::CountOf(std::string_view name) const {
  const Written* const written = Find(name);
  return written != nullptr ? written->items.size() : 0;
}

Guard FindGuard(std::string_view operator_name) {
  for (const auto& [name, guard] : kGuards) {
    if (name == operator_name) return guard;
  }
  return nullptr;
}

bool IsSize(std::string_view parameter) {
  constexpr std::string_view kSizes[] = {"kernel_size", "stride",         "padding", "dilation",
                                         "output_size", "output_padding", "pad"};
  return std::find(std::begin(kSizes), std::end(kSizes), parameter) != std::end(kSizes);
}

}  // namespace opgraft::aten
