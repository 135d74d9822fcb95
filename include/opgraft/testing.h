// Tests an operator in real ONNX Runtime, for GoogleTest: one case, run in every way that matters.
//
//   TEST(Scale, Doubles) {
//     opgraft::OpTester test("my.domain::Scale");
//     test.AddInput<float>("x", {2, 2}, {1, 2, 3, 4});
//     test.AddAttribute("factor", 2.0f);
//     test.AddOutput<float>("y", {2, 2}, {2, 4, 6, 8});
//     test.Run();
//   }
//
// The variable OPGRAFT_TEST_RUNTIME names ONNX Runtime's library, OPGRAFT_TEST_PACKS the packs,
// separated by ':', unless the operators are compiled into the program. OPGRAFT_TEST_CUDA names
// libopgraft_cuda.so, by which cases are run on the GPU too. The implementation is in the package's
// folder `testing`, to be compiled with the tests. docs/testing.md tells more.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "opgraft/attribute.h"
#include "opgraft/element.h"
#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)
namespace opgraft {

/// One case of one operator. Inputs and outputs are added in the operator's order; their names are
/// those in the messages.
class OpTester {
 public:
  enum class ExpectResult { kExpectSuccess, kExpectFailure };

  /// How far from what is expected an element may be: `absolute + relative * |expected|`.
  struct Tolerance {
    double absolute = 0;
    double relative = 0;
  };

  /// A size of a shape: a number, a symbol such as "n", or "?" for one that is not known.
  struct Dimension {
    std::int64_t size = -1;
    std::string symbol;

    template <std::integral I>
    Dimension(I number)  // NOLINT(google-explicit-constructor): a number is a size
        : size(static_cast<std::int64_t>(number)) {}
    Dimension(std::string_view name)  // NOLINT(google-explicit-constructor): a name is one too
        : symbol(name == "?" ? "" : name) {}
    Dimension(const char* name)  // NOLINT(google-explicit-constructor)
        : Dimension(std::string_view(name)) {}
    bool operator==(const Dimension&) const = default;
  };
  /// nullopt where not even the rank is known.
  using Shape = std::optional<std::vector<Dimension>>;

  /// `name` may be "domain::Name". `version` is that of the domain that the model asks for.
  explicit OpTester(std::string_view name, int version = 1, std::string_view domain = "");

  /// A constant input is an initializer in every way of running: the operator needs it so.
  template <class T>
  OpTester& AddInput(std::string name, std::vector<std::int64_t> shape, std::vector<T> values,
                     bool is_constant = false) {
    TensorValue value(shape, values);
    return Add(&inputs_, std::move(name), Sizes(shape), std::move(value), is_constant);
  }
  template <class T>
  OpTester& AddOutput(std::string name, std::vector<std::int64_t> shape, std::vector<T> values) {
    TensorValue value(shape, values);
    return Add(&outputs_, std::move(name), Sizes(shape), std::move(value), false);
  }
  /// What InferShapes is given and expects, for values that need no elements.
  template <class T>
  OpTester& AddInputShape(std::string name, std::vector<Dimension> shape) {
    return Add(&inputs_, std::move(name), std::move(shape), Empty<T>(), false);
  }
  template <class T>
  OpTester& AddInputOfUnknownRank(std::string name) {
    return Add(&inputs_, std::move(name), std::nullopt, Empty<T>(), false);
  }
  template <class T>
  OpTester& AddOutputShape(std::string name, std::vector<Dimension> shape) {
    return Add(&outputs_, std::move(name), std::move(shape), Empty<T>(), false);
  }
  template <class T>
  OpTester& AddOutputOfUnknownRank(std::string name) {
    return Add(&outputs_, std::move(name), std::nullopt, Empty<T>(), false);
  }
  /// An optional input or output that is absent.
  OpTester& AddOmittedInput() { return Add(&inputs_, "", std::nullopt, {}, false); }
  OpTester& AddOmittedOutput() { return Add(&outputs_, "", std::nullopt, {}, false); }

  template <class A>
  OpTester& AddAttribute(std::string name, const A& value) {
    if constexpr (std::is_integral_v<A>) {
      return AddAttributeValue(std::move(name), static_cast<std::int64_t>(value));
    } else if constexpr (std::is_floating_point_v<A>) {
      return AddAttributeValue(std::move(name), static_cast<float>(value));
    } else if constexpr (std::is_convertible_v<A, std::string_view>) {
      return AddAttributeValue(std::move(name), std::string(std::string_view(value)));
    } else {
      return AddAttributeValue(std::move(name), value);
    }
  }
  template <class E>
  OpTester& AddAttribute(std::string name, std::initializer_list<E> values) {
    return AddList(std::move(name), values);
  }
  template <class E>
  OpTester& AddAttribute(std::string name, const std::vector<E>& values) {
    return AddList(std::move(name), values);
  }

  /// Instead of what the type of an output has: 1e-5 for float, 1e-9 for double, 2e-3 for Float16,
  /// 2e-2 for BFloat16, absolute and relative; none for others. For all outputs, or for one.
  OpTester& SetTolerance(double absolute, double relative = 0);
  OpTester& SetOutputTolerance(std::string_view output, double absolute, double relative = 0);

  /// Not on the GPU, though the operator has a kernel for it.
  OpTester& ExcludeCuda() {
    is_cuda_excluded_ = true;
    return *this;
  }

  /// Runs the case in every way, each of which must give the outputs: on the CPU, and on the GPU
  /// where there is one and the operator has a kernel for it. Without one, a line that is printed
  /// says so, and a case that only a GPU could run is skipped.
  void Run(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Report(Try(ExpectResult::kExpectSuccess, ""), file, line);
  }
  /// As ONNX Runtime's own: "CUDAExecutionProvider" is the one provider that can be excluded.
  void Run(ExpectResult expected, std::string_view text = "",
           const std::unordered_set<std::string>& excluded_providers = {},
           const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (excluded_providers.count("CUDAExecutionProvider") > 0) ExcludeCuda();
    Report(Try(expected, text), file, line);
  }
  /// Runs the case in every way, each of which must fail with an error that contains `text`.
  void ExpectFailure(std::string_view text, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) {
    Report(Try(ExpectResult::kExpectFailure, text), file, line);
  }
  /// Tests the shape rule alone: from the shapes of the inputs it must tell those of the outputs,
  /// symbols included, no less and no more.
  void InferShapes(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Report({CheckShapes(ExpectResult::kExpectSuccess, ""), ""}, file, line);
  }
  void InferShapes(ExpectResult expected, std::string_view text = "",
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Report({CheckShapes(expected, text), ""}, file, line);
  }

  /// What Run and InferShapes would report, for other test frameworks; none: all is well.
  std::vector<std::string> Check(ExpectResult expected, std::string_view text) const;
  std::vector<std::string> CheckShapes(ExpectResult expected, std::string_view text) const;

  // As ONNX Runtime's own OpTester spells them.
  template <class T>
  OpTester& AddOptionalInputEdge() {
    return AddOmittedInput();
  }
  template <class T>
  OpTester& AddOptionalOutputEdge() {
    return AddOmittedOutput();
  }
  OpTester& SetOutputAbsErr(std::string_view output, float absolute);
  OpTester& SetOutputRelErr(std::string_view output, float relative);

  /// An input or output as it was added.
  struct Value {
    std::string name;  ///< empty for one that is omitted
    Shape shape;
    TensorValue tensor;  ///< of type 0 for one that is omitted
    bool has_elements = false;
    bool is_constant = false;
    std::optional<Tolerance> tolerance;
  };
  struct Attribute {
    std::string name;
    AttributeValue value;
  };

 private:
  static std::vector<Dimension> Sizes(const std::vector<std::int64_t>& shape) {
    return {shape.begin(), shape.end()};
  }
  template <class T>
  static TensorValue Empty() {
    static_assert(kElementType<T> != 0, "no element type of tensors");
    return {kElementType<T>, {-1}, {}, {}};
  }
  template <class Elements>
  OpTester& AddList(std::string name, const Elements& elements) {
    using E = std::remove_cvref_t<decltype(*elements.begin())>;
    if constexpr (std::is_integral_v<E>) {
      return AddAttributeValue(std::move(name),
                               std::vector<std::int64_t>(elements.begin(), elements.end()));
    } else if constexpr (std::is_floating_point_v<E>) {
      return AddAttributeValue(std::move(name),
                               std::vector<float>(elements.begin(), elements.end()));
    } else {
      return AddAttributeValue(std::move(name),
                               std::vector<std::string>(elements.begin(), elements.end()));
    }
  }
  OpTester& Add(std::vector<Value>* values, std::string name, Shape shape, TensorValue tensor,
                bool is_constant);
  OpTester& AddAttributeValue(std::string name, AttributeValue value);
  Tolerance* ToleranceOf(std::string_view output);
  struct Outcome {
    std::vector<std::string> problems;
    std::string skipped;  ///< why nothing was run
  };
  Outcome Try(ExpectResult expected, std::string_view text) const;
  static void Report(const Outcome& outcome, const char* file, int line) {
    for (const std::string& problem : outcome.problems) ADD_FAILURE_AT(file, line) << problem;
    if (!outcome.skipped.empty()) GTEST_SKIP() << outcome.skipped;
  }

  std::string domain_;
  std::string name_;
  int version_;
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
  std::vector<Attribute> attributes_;
  std::vector<std::string> mistakes_;  ///< of the case itself
  bool is_cuda_excluded_ = false;
};

}  // namespace opgraft
#pragma GCC visibility pop

/// As the tests in ONNX Runtime's own tree know it; beside opgraft/contrib.h they compile as they
/// are.
namespace onnxruntime::test {
using opgraft::OpTester;
}  // namespace onnxruntime::test
