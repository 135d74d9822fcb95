// Checks for recurrent layers, whose kernels take sizes from some weights and read the others by
// them.
#include <algorithm>
#include <initializer_list>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31U;

/// The structure of the layers.
struct Layers {
  std::int64_t count = 0;
  std::int64_t directions = 1;
  bool have_biases = false;
  bool have_projections = false;
};

std::string CheckLayers(const NamedArguments& arguments, Layers* layers) {
  layers->count = arguments.FindInteger("num_layers").value_or(0);
  layers->directions = arguments.FindInteger("bidirectional").value_or(0) != 0 ? 2 : 1;
  layers->have_biases = arguments.FindInteger("has_biases").value_or(0) != 0;
  const auto params = static_cast<std::int64_t>(arguments.CountOf("params"));
  const std::int64_t each = layers->have_biases ? 4 : 2;
  if (layers->count >= 1 && layers->count <= 1024) {
    const std::int64_t cells = layers->count * layers->directions;
    layers->have_projections = params == cells * (each + 1);
    if (layers->have_projections || params == cells * each) return "";
  }
  return "expected num_layers, has_biases and bidirectional that match the number of params, got " +
         std::to_string(layers->count) + " layers and " + std::to_string(params) + " params";
}

/// batch_sizes are the numbers of sequences in each step of packed data: no more than in the step
/// before it.
std::string CheckSteps(const TensorArgument& steps, const TensorArgument& data) {
  bool is_good = steps.rank() == 1 && steps.shape[0] > 0 && steps.element_type == kInt64;
  std::int64_t left = data.shape[0];
  std::int64_t last = left;
  for (std::size_t i = 0; is_good && i < Count(steps.shape); ++i) {
    const std::int64_t size = ReadInteger(steps, i).value_or(0);
    is_good = size >= 1 && size <= last && size <= left;
    if (!is_good) break;
    last = size;
    left -= size;
  }
  if (is_good && left == 0) return "";
  return "expected int64 batch_sizes that are positive, do not increase and sum to the data's " +
         std::to_string(data.shape[0]) + " rows, got " + steps.Text();
}

/// Compares the shapes and types of tensors with the expected ones.
class Comparison {
 public:
  explicit Comparison(int element_type) : element_type_(element_type) {}

  void Compare(const std::string& name, const TensorArgument& tensor,
               std::initializer_list<std::int64_t> shape) {
    if (!wrong_.empty()) return;
    const bool is_good =
        tensor.element_type == element_type_ && !tensor.is_complex &&
        std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end());
    if (is_good) return;
    TensorArgument expected = tensor;
    expected.element_type = element_type_;
    expected.is_complex = false;
    expected.shape = {shape.begin(), shape.size()};
    wrong_ = "expected " + name + " " + expected.Text() + ", got " + tensor.Text();
  }

  const std::string& wrong() const { return wrong_; }

 private:
  const int element_type_;
  std::string wrong_;
};

/// Checks all tensors of a call, for cells of so many gates.
std::string CheckCells(const NamedArguments& arguments, std::int64_t gates, bool is_lstm) {
  Layers layers;
  std::string wrong = CheckLayers(arguments, &layers);
  if (!wrong.empty()) return wrong;
  const std::optional<TensorArgument> steps = arguments.FindTensor("batch_sizes");
  const std::optional<TensorArgument> input = arguments.FindTensor(steps ? "data" : "input");
  if (!input) return "";
  const bool is_real = input->element_type == 1 || input->element_type == 10 ||
                       input->element_type == 11 || input->element_type == 16;
  if (input->rank() != (steps ? 2U : 3U) || input->is_complex || !is_real) {
    return "expected an input of " + std::string(steps ? "2" : "3") +
           " dimensions and a floating-point type, got " + input->Text();
  }
  if (steps) wrong = CheckSteps(*steps, *input);
  if (!wrong.empty()) return wrong;
  const bool is_batch_first = arguments.FindInteger("batch_first").value_or(0) != 0;
  const std::int64_t batch =
      steps ? ReadInteger(*steps, 0).value_or(0) : input->shape[is_batch_first ? 0 : 1];
  std::vector<TensorArgument> states = arguments.FindTensors("hx");
  if (const std::optional<TensorArgument> state = arguments.FindTensor("hx")) {
    states.push_back(*state);
  }
  if (states.size() != (is_lstm ? 2U : 1U) || states.front().rank() != 3 ||
      states.back().rank() != 3) {
    return "expected " + std::string(is_lstm ? "two states" : "a state") +
           " of 3 dimensions, got " + std::to_string(states.size());
  }
  const std::int64_t hidden = states.back().shape[2];
  const std::int64_t given = layers.have_projections ? states.front().shape[2] : hidden;
  if (layers.have_projections && (!is_lstm || given == hidden)) {
    // libtorch goes by these sizes to tell whether there are projections. If they are equal, it
    // takes the projections for weights.
    return "expected the first state to be smaller than the last, as params have projections, "
           "got " +
           states.front().Text();
  }
  std::int64_t taken = input->shape.back();
  for (const std::int64_t size : {hidden, given, taken, batch + 1}) {
    if (size < 1 || size >= kLargestSize) {
      return "expected sizes of input, states and batch of at least 1, got " + std::to_string(size);
    }
  }
  const std::vector<TensorArgument> params = arguments.FindTensors("params");
  Comparison comparison(input->element_type);
  const std::int64_t cells = layers.count * layers.directions;
  comparison.Compare("the first state", states.front(), {cells, batch, given});
  comparison.Compare("the last state", states.back(), {cells, batch, hidden});
  std::size_t place = 0;
  const auto compare = [&](std::initializer_list<std::int64_t> shape) {
    const std::string name = "params[" + std::to_string(place) + "]";
    if (place < params.size()) comparison.Compare(name, params[place], shape);
    ++place;
  };
  for (std::int64_t i = 0; i < cells; ++i) {
    if (i == layers.directions) taken = given * layers.directions;
    compare({gates * hidden, taken});
    compare({gates * hidden, given});
    for (int bias = 0; layers.have_biases && bias < 2; ++bias) compare({gates * hidden});
    if (layers.have_projections) compare({given, hidden});
  }
  return comparison.wrong();
}

}  // namespace

std::string CheckLstm(const NamedArguments& arguments) { return CheckCells(arguments, 4, true); }
std::string CheckGru(const NamedArguments& arguments) { return CheckCells(arguments, 3, false); }
std::string CheckRnn(const NamedArguments& arguments) { return CheckCells(arguments, 1, false); }

}  // namespace opgraft::aten
