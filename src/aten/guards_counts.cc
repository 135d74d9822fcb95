// Counts, powers and degrees: a single number decides how long such an operator runs, without a
// tensor of that size that would have to fit into memory.
#include <cmath>
#include <string>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

constexpr std::int64_t kMostPower = std::int64_t{1} << 31U;
constexpr std::int64_t kMostDifferences = 1024;
constexpr std::int64_t kMostGammas = std::int64_t{1} << 20U;
/// Each argument becomes a dimension of the grid.
constexpr auto kMostGrids = static_cast<std::int64_t>(kMostDimensions);
/// The search for the best order of a matrix product takes time cubic in the number of matrices.
constexpr std::int64_t kMostMatrices = 1024;
/// How much larger than the input padding may be: kernels step through all of it for each output.
constexpr std::int64_t kMostPadding = 1024;
/// The steps that each element may take, and the steps beyond these that all elements may take
/// together: some seconds.
constexpr double kFreeSteps = 1024;
constexpr double kMostSteps = std::int64_t{1} << 28U;

std::string CheckAtMost(const char* name, std::optional<std::int64_t> number, std::int64_t most) {
  if (!number || *number <= most) return "";
  return "expected " + std::string(name) + " of at most " + std::to_string(most) + ", got " +
         std::to_string(*number);
}

/// Returns how often each element of `tensor` is used when it is broadcast with `other`.
double Uses(const TensorArgument& tensor, const std::optional<TensorArgument>& other) {
  double uses = 1;
  const std::size_t rank = other ? other->rank() : 0;
  for (std::size_t i = 1; i <= rank; ++i) {
    const bool is_repeated = i > tensor.rank() || tensor.SizeFromEnd(i) == 1;
    if (is_repeated) uses *= static_cast<double>(other->SizeFromEnd(i));
  }
  return uses;
}

/// Sums up the steps that the elements of `name` take, which broadcasting with `other` may repeat.
template <class StepsOf>
std::string CheckSteps(const NamedArguments& arguments, const char* name, const char* other,
                       const char* expected, const StepsOf& steps_of) {
  double sum = 0;
  double worst = 0;
  const auto add = [&](double number, double uses) {
    const double steps = steps_of(number);
    if (!(steps > kFreeSteps)) return;  // also if it is NaN
    if (steps > steps_of(worst)) worst = number;
    sum += (steps - kFreeSteps) * uses;
  };
  const std::optional<TensorArgument> others = arguments.FindTensor(other);
  if (const std::optional<TensorArgument> tensor = arguments.FindTensor(name)) {
    const double uses = Uses(*tensor, others);
    const std::size_t count = Count(tensor->shape);
    for (std::size_t i = 0; i < count; ++i) {
      const std::optional<double> number = ReadReal(*tensor, i);
      if (!number) return "expected " + std::string(name) + " of floats, got " + tensor->Text();
      add(*number, uses);
    }
  } else if (const std::optional<double> number = arguments.FindReal(name)) {
    add(*number, others ? static_cast<double>(Count(others->shape)) : 1);
  }
  if (sum <= kMostSteps) return "";
  return "expected " + std::string(expected) + " that take at most 2^28 steps in all, got " +
         NumberText(worst) + " among them, which would not end";
}

/// The Hurwitz zeta function counts from a negative number up to 0 in steps of 1.
double StepsOfZeta(double number) {
  return number < 0 && number != std::floor(number) ? -number : 0;
}

std::int64_t SizeAlong(const TensorArgument& tensor, std::int64_t dimension) {
  const auto rank = static_cast<std::int64_t>(tensor.rank());
  if (dimension < 0) dimension += rank;
  const bool is_there = dimension >= 0 && dimension < rank;
  return is_there ? tensor.shape[static_cast<std::size_t>(dimension)] : 0;
}

/// Returns the quotient, rounded up.
std::int64_t Quotient(std::int64_t dividend, std::int64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

/// If more tensors come out than the node declares, the call would fail afterwards, and it may take
/// long.
std::string CheckParts(const NamedArguments& arguments, std::int64_t count) {
  if (count <= static_cast<std::int64_t>(arguments.parts())) return "";
  return "it returns a list of " + std::to_string(count) +
         " tensors, but the node's attribute 'results' says " + std::to_string(arguments.parts());
}

}  // namespace

std::string CheckPower(const NamedArguments& arguments) {
  const std::optional<std::int64_t> power = arguments.FindInteger("n");
  if (!power || (*power < kMostPower && *power > -kMostPower)) return "";
  return "expected n between -2^31 and 2^31, got " + std::to_string(*power);
}

std::string CheckDifferences(const NamedArguments& arguments) {
  return CheckAtMost("n", arguments.FindInteger("n"), kMostDifferences);
}

std::string CheckGammas(const NamedArguments& arguments) {
  return CheckAtMost("p", arguments.FindInteger("p"), kMostGammas);
}

std::string CheckChosen(const NamedArguments& arguments) {
  return CheckAtMost("r", arguments.FindInteger("r"), kMostGrids);
}

std::string CheckGrids(const NamedArguments& arguments) {
  return CheckAtMost("a number of tensors", static_cast<std::int64_t>(arguments.CountOf("tensors")),
                     kMostGrids);
}

std::string CheckChain(const NamedArguments& arguments) {
  const std::size_t count = arguments.CountOf("tensors") + arguments.CountOf("matrices");
  return CheckAtMost("a number of matrices", static_cast<std::int64_t>(count), kMostMatrices);
}

std::string CheckPadding(const NamedArguments& arguments) {
  const std::optional<TensorArgument> image = arguments.FindTensor("self");
  const std::optional<std::vector<std::int64_t>> padding = arguments.FindIntegers("padding");
  if (!image || !padding) return "";
  for (std::size_t i = 0; i < padding->size(); ++i) {
    const std::int64_t size = image->SizeFromEnd(padding->size() - i);
    if ((*padding)[i] <= size + kMostPadding) continue;
    return "expected padding of at most " + std::to_string(size + kMostPadding) +
           " for an input of " + std::to_string(size) + ", got " + std::to_string((*padding)[i]);
  }
  return "";
}

std::string CheckSections(const NamedArguments& arguments) {
  std::optional<std::int64_t> sections = arguments.FindInteger("sections");
  if (const auto tensor = arguments.FindTensor("tensor_indices_or_sections")) {
    if (tensor->rank() == 0) sections = ReadInteger(*tensor, 0);
  }
  return sections ? CheckParts(arguments, *sections) : "";
}

std::string CheckChunks(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<std::int64_t> chunks = arguments.FindInteger("chunks");
  if (!self || !chunks || *chunks < 1) return "";
  const std::int64_t size = SizeAlong(*self, arguments.FindInteger("dim").value_or(0));
  if (size == 0) return CheckParts(arguments, *chunks);  // libtorch returns that many empty ones
  return CheckParts(arguments, Quotient(size, Quotient(size, *chunks)));
}

std::string CheckUnbound(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  if (!self) return "";
  return CheckParts(arguments, SizeAlong(*self, arguments.FindInteger("dim").value_or(0)));
}

std::string CheckSplit(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<std::int64_t> each = arguments.FindInteger("split_size");
  if (!self || !each || *each < 1) return "";
  const std::int64_t size = SizeAlong(*self, arguments.FindInteger("dim").value_or(0));
  return CheckParts(arguments, Quotient(size, *each));
}

std::string CheckZeta(const NamedArguments& arguments) {
  return CheckSteps(arguments, "other", "self", "elements of other below 0", StepsOfZeta);
}

std::string CheckPolygamma(const NamedArguments& arguments) {
  const std::int64_t order = arguments.FindInteger("n").value_or(0);
  if (order < 2) return "";  // which are calculated in another way
  return CheckSteps(arguments, "self", "", "elements below 0", StepsOfZeta);
}

std::string CheckDegree(const NamedArguments& arguments) {
  return CheckSteps(arguments, "n", "x", "degrees n", [](double number) { return number; });
}

}  // namespace opgraft::aten
