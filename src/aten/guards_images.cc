// Checks for kernels of images, which calculate a position in the input from one in the result and
// trust it: scales that do not match the sizes lead beyond the input, and with an unknown mode
// nothing is written.
#include <cmath>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

constexpr std::size_t kMostAxes = 3;
constexpr const char* kScaleNames[kMostAxes][kMostAxes] = {
    {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};

/// `size` multiplied by the scale is the size of the output, which is `output` if it is given.
std::string CheckScale(const std::string& name, double scale, std::int64_t size,
                       std::optional<std::int64_t> output) {
  const std::string got = ", got " + NumberText(scale);
  if (!std::isfinite(scale) || scale <= 0) return "expected " + name + " above 0" + got;
  const double input = static_cast<double>(size);
  if (output && static_cast<double>(*output) > input * scale + 1) {
    return "expected " + name + " that scale the input's size " + std::to_string(size) +
           " to the output's size " + std::to_string(*output) + got;
  }
  if (scale * (input + 1) < 1) {
    return "expected " + name + " that keep at least one of the input's " + std::to_string(size) +
           " elements" + got;
  }
  return "";
}

}  // namespace

std::string CheckResampling(const NamedArguments& arguments) {
  const bool is_listed = arguments.Has("input");  // the overload "vec"
  const std::optional<TensorArgument> image = arguments.FindTensor(is_listed ? "input" : "self");
  if (!image) return "";
  const std::size_t axes = image->rank() - 2;
  if (image->rank() < 3 || axes > kMostAxes) {
    return "expected an input of 3 to 5 dimensions, got " + image->Text();
  }
  std::optional<std::vector<std::int64_t>> output = arguments.FindIntegers("output_size");
  if (output && output->size() == 1) output->resize(axes, output->front());
  std::optional<std::vector<double>> scales = arguments.FindReals("scale_factors");
  if ((output && output->size() != axes) || (scales && scales->size() != axes)) {
    return "expected a size or a scale for each of the input's last " + std::to_string(axes) +
           " dimensions, got " + std::to_string(output ? output->size() : scales->size());
  }
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t size = image->shape[i + 2];
    if (output && (*output)[i] < 1) {
      return "expected an output_size above 0, got " + std::to_string((*output)[i]);
    }
    const std::string name = scales ? "scale_factors" : kScaleNames[axes - 1][i];
    const std::optional<double> scale =
        scales ? std::optional((*scales)[i]) : arguments.FindReal(name);
    if (!scale) continue;
    std::string wrong =
        CheckScale(name, *scale, size, output ? std::optional((*output)[i]) : std::nullopt);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string CheckGrid(const NamedArguments& arguments) {
  const std::optional<TensorArgument> input = arguments.FindTensor("input");
  const std::optional<TensorArgument> grid = arguments.FindTensor("grid");
  if (!input || !grid) return "";
  const std::size_t rank = input->rank();
  const std::int64_t modes = rank == 5 ? 1 : 2;  // volumes have no bicubic mode
  for (const char* const name : {"interpolation_mode", "padding_mode"}) {
    const std::int64_t most = std::string_view(name) == "padding_mode" ? 2 : modes;
    const std::optional<std::int64_t> mode = arguments.FindInteger(name);
    if (mode && (*mode < 0 || *mode > most)) {
      return "expected " + std::string(name) + " from 0 to " + std::to_string(most) + ", got " +
             std::to_string(*mode);
    }
  }
  bool is_good = (rank == 4 || rank == 5) && grid->rank() == rank &&
                 grid->shape[0] == input->shape[0] &&
                 grid->shape.back() == static_cast<std::int64_t>(rank) - 2;
  for (std::size_t i = 2; is_good && i < rank; ++i) is_good = input->shape[i] > 0;
  if (is_good) return "";
  return "expected an input of 4 or 5 dimensions that is not empty, and a grid of the same rank "
         "with the same first size and coordinates along the last dimension, got " +
         input->Text() + " and " + grid->Text();
}

}  // namespace opgraft::aten
