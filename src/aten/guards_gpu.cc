// Checks numbers that the kernels for the CPU check themselves, while the kernels for CUDA have
// assertions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

constexpr int kUint8 = 2;

/// Returns the dimension that a number means, counted from the end if it is negative; nullopt if
/// there is none, which the operator itself refuses.
std::optional<std::size_t> FindDimension(const TensorArgument& tensor, std::int64_t dimension) {
  const auto rank = static_cast<std::int64_t>(tensor.rank());
  if (dimension < 0) dimension += std::max(rank, std::int64_t{1});
  if (dimension < 0 || dimension >= std::max(rank, std::int64_t{1})) return std::nullopt;
  return static_cast<std::size_t>(dimension);
}

std::int64_t SizeOf(const TensorArgument& tensor, std::size_t dimension) {
  return dimension < tensor.rank() ? tensor.shape[dimension] : 1;  // no dimensions: one element
}

/// Indices must be below `size`. With `is_signed` they may be negative and count from the end.
std::string CheckIndices(const std::string& name, const TensorArgument& indices, std::int64_t size,
                         bool is_signed) {
  const std::int64_t least = is_signed ? -size : 0;
  if (LieWithin(indices, least, size - 1)) return "";
  return "expected " + name + " from " + std::to_string(least) + " to " + std::to_string(size - 1) +
         ", got one that is out of range";
}

std::string CheckAlong(const NamedArguments& arguments, bool is_signed) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<TensorArgument> index = arguments.FindTensor("index");
  const std::optional<std::int64_t> number = arguments.FindInteger("dim");
  if (!self || !index || !number) return "";
  const std::optional<std::size_t> dimension = FindDimension(*self, *number);
  return dimension ? CheckIndices("index", *index, SizeOf(*self, *dimension), is_signed) : "";
}

/// Returns the number of elements of two tensors broadcast together; nullopt if they cannot be.
std::optional<std::int64_t> CommonCount(const TensorArgument& one, const TensorArgument& other) {
  std::int64_t count = 1;
  for (std::size_t i = 1; i <= std::max(one.rank(), other.rank()); ++i) {
    const std::int64_t first = i <= one.rank() ? one.SizeFromEnd(i) : 1;
    const std::int64_t second = i <= other.rank() ? other.SizeFromEnd(i) : 1;
    if (first != second && first != 1 && second != 1) return std::nullopt;
    count *= first == 1 ? second : first;
  }
  return count;
}

/// Checks all numbers of a tensor with `is_good`.
template <class IsGood>
std::string CheckNumbers(const TensorArgument& tensor, const std::string& expected,
                         IsGood is_good) {
  for (std::size_t i = 0; i < Count(tensor.shape); ++i) {
    const std::optional<double> number = ReadReal(tensor, i);
    if (!number || !is_good(*number)) {
      return "expected " + expected + ", got " + (number ? NumberText(*number) : "something else");
    }
  }
  return "";
}

}  // namespace

std::string CheckIndicesAlong(const NamedArguments& arguments) {
  return CheckAlong(arguments, /*is_signed=*/false);
}

std::string CheckSignedIndicesAlong(const NamedArguments& arguments) {
  return CheckAlong(arguments, /*is_signed=*/true);
}

std::string CheckIndicesOfAll(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<TensorArgument> index = arguments.FindTensor("index");
  if (!self || !index) return "";
  return CheckIndices("index", *index, static_cast<std::int64_t>(Count(self->shape)), true);
}

std::string CheckTakenAlong(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<TensorArgument> indices = arguments.FindTensor("indices");
  if (!self || !indices) return "";
  const std::optional<std::int64_t> number = arguments.FindInteger("dim");
  if (!number) {
    return CheckIndices("indices", *indices, static_cast<std::int64_t>(Count(self->shape)), false);
  }
  const std::optional<std::size_t> dimension = FindDimension(*self, *number);
  return dimension ? CheckIndices("indices", *indices, SizeOf(*self, *dimension), false) : "";
}

std::string CheckIndicesOfEach(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  if (!self) return "";
  std::size_t dimension = 0;
  for (const std::optional<TensorArgument>& one : arguments.FindOptionalTensors("indices")) {
    const bool is_mask = one && (one->element_type == kBool ||
                                 one->element_type == kUint8);  // for `rank` dimensions
    if (one && !is_mask && dimension < self->rank()) {
      std::string wrong = CheckIndices("indices for dimension " + std::to_string(dimension), *one,
                                       self->shape[dimension], /*is_signed=*/true);
      if (!wrong.empty()) return wrong;
    }
    dimension += is_mask ? one->rank() : 1;
  }
  return "";
}

std::string CheckRows(const NamedArguments& arguments) {
  const std::optional<TensorArgument> weight = arguments.FindTensor("weight");
  const std::optional<TensorArgument> indices = arguments.FindTensor("indices");
  if (!weight || !indices || weight->rank() == 0) return "";
  return CheckIndices("indices", *indices, weight->shape[0], /*is_signed=*/false);
}

std::string CheckUnpooling(const NamedArguments& arguments) {
  const std::optional<TensorArgument> indices = arguments.FindTensor("indices");
  const std::optional<std::vector<std::int64_t>> sizes = arguments.FindIntegers("output_size");
  if (!indices || !sizes) return "";
  std::optional<std::int64_t> area = 1;
  for (const std::int64_t size : *sizes) area = area ? Product(*area, size) : std::nullopt;
  return area ? CheckIndices("indices", *indices, *area, /*is_signed=*/false)
              : "expected an output_size whose product does not overflow";
}

std::string CheckClasses(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<TensorArgument> target = arguments.FindTensor("target");
  if (!self || !target || self->rank() == 0) return "";
  const std::int64_t classes = self->shape[self->rank() == 1 ? 0 : 1];
  const std::optional<std::int64_t> ignored = arguments.FindInteger("ignore_index");
  if (LieWithin(*target, 0, classes - 1)) return "";
  for (std::size_t i = 0; i < Count(target->shape); ++i) {
    const std::optional<std::int64_t> one = ReadInteger(*target, i);
    if (one && ((*one >= 0 && *one < classes) || one == ignored)) continue;
    return "expected targets from 0 to " + std::to_string(classes - 1) +
           (ignored ? ", or " + std::to_string(*ignored) + " to be ignored" : "") +
           (one ? ", got " + std::to_string(*one) : "");
  }
  return "";
}

std::string CheckOneHot(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<std::int64_t> classes = arguments.FindInteger("num_classes");
  if (!self) return "";
  // With -1 there are as many classes as the largest number needs.
  const bool is_open = !classes || *classes < 0;
  return CheckIndices("classes", *self,
                      is_open ? std::numeric_limits<std::int64_t>::max() : *classes,
                      /*is_signed=*/false);
}

std::string CheckEnoughForMask(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<TensorArgument> mask = arguments.FindTensor("mask");
  const std::optional<TensorArgument> source = arguments.FindTensor("source");
  if (!self || !mask || !source) return "";
  const std::optional<std::int64_t> all = CommonCount(*self, *mask);
  const auto elements = static_cast<std::int64_t>(Count(mask->shape));
  if (!all || elements == 0) return "";
  if (mask->element_type != kBool || mask->readable() == nullptr) {
    return "expected a mask of bools, got " + mask->Text();
  }
  std::int64_t chosen = 0;
  for (std::size_t i = 0; i < Count(mask->shape); ++i) chosen += ReadInteger(*mask, i).value_or(1);
  const std::int64_t needed = chosen * (*all / elements);
  const auto given = static_cast<std::int64_t>(Count(source->shape));
  if (needed <= given) return "";
  return "expected a source of at least " + std::to_string(needed) +
         " elements, as many as the mask selects, got " + source->Text();
}

std::string CheckChances(const NamedArguments& arguments) {
  const std::optional<TensorArgument> tensor =
      arguments.FindTensor(arguments.Has("p") ? "p" : "self");
  if (!tensor) return "";
  return CheckNumbers(*tensor, "probabilities from 0 to 1",
                      [](double chance) { return chance >= 0 && chance <= 1; });
}

std::string CheckQuantiles(const NamedArguments& arguments) {
  const std::optional<TensorArgument> tensor = arguments.FindTensor("q");
  if (!tensor) return "";
  return CheckNumbers(*tensor, "q from 0 to 1", [](double q) { return q >= 0 && q <= 1; });
}

/// As on the CPU; in addition, kernels trust the size of the result if it is given.
std::string CheckCountedRepeats(const NamedArguments& arguments) {
  std::string wrong = CheckRepeats(arguments);
  const std::optional<std::int64_t> given = arguments.FindInteger("output_size");
  if (!wrong.empty() || !given) return wrong;
  const std::optional<TensorArgument> repeats = arguments.FindTensor("repeats");
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  std::int64_t sum = arguments.FindInteger("repeats").value_or(0);
  for (std::size_t i = 0; repeats && i < Count(repeats->shape); ++i) {
    sum += ReadInteger(*repeats, i).value_or(0);
  }
  if (self && (!repeats || Count(repeats->shape) == 1)) {  // the same number for each element
    const std::optional<std::int64_t> number = arguments.FindInteger("dim");
    const std::optional<std::size_t> dimension =
        number ? FindDimension(*self, *number) : std::nullopt;
    sum *= dimension ? SizeOf(*self, *dimension) : static_cast<std::int64_t>(Count(self->shape));
  }
  if (sum == *given) return "";
  return "expected an output_size of " + std::to_string(sum) + ", the sum of the repeats, got " +
         std::to_string(*given);
}

std::string CheckRates(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  if (!self) return "";
  return CheckNumbers(*self, "rates of 0 or more", [](double rate) { return rate >= 0; });
}

std::string CheckWeights(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  if (!self || self->rank() == 0) return "";
  std::string wrong = CheckNumbers(*self, "finite weights of 0 or more", [](double weight) {
    return weight >= 0 && std::isfinite(weight);
  });
  if (!wrong.empty()) return wrong;
  const auto row = static_cast<std::size_t>(self->SizeFromEnd(1));
  double sum = 0;
  for (std::size_t i = 0; i < Count(self->shape); ++i) {
    sum += ReadReal(*self, i).value_or(0);
    if ((i + 1) % row != 0) continue;
    if (!(sum > 0)) return "expected weights with at least one above 0 in each row";
    sum = 0;
  }
  return "";
}

}  // namespace opgraft::aten
