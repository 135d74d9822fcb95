// Tests an operator in the real ONNX Runtime, for GoogleTest: one case, run in every way that
// matters.
//
//   TEST(Scale, Doubles) {
//     opgraft::OpTester test("my.domain::Scale");
//     test.AddInput<float>("x", {2, 2}, {1, 2, 3, 4});
//     test.AddAttribute("factor", 2.0f);
//     test.AddOutput<float>("y", {2, 2}, {2, 4, 6, 8});
//     test.Run();
//   }
//
// The environment variable OPGRAFT_TEST_RUNTIME names ONNX Runtime's library, and
// OPGRAFT_TEST_PACKS the packs, separated by ':', unless the operators are compiled into the
// program. OPGRAFT_TEST_CUDA names libopgraft_cuda.so, with which cases also run on the GPU. The
// implementation is in the package's folder `testing` and is compiled with the tests. See
// docs/testing.md.
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

/// One test case of an operator. Inputs and outputs are added in the operator's order; their names
/// appear in messages only.
class OpTester {
 public:
  enum class ExpectResult { kExpectSuccess, kExpectFailure };

  /// How much an element may differ from the expected value: `absolute + relative * |expected|`.
  struct Tolerance {
    double absolute = 0;
    double relative = 0;
  };

  /// A size in a shape: a number, a symbol such as "n", or "?" for an unknown size.
  struct Dimension {
    std::int64_t size = -1;
    std::string symbol;

    template <std::integral I>
    Dimension(I number)  // NOLINT(google-explicit-constructor): numbers are sizes
        : size(static_cast<std::int64_t>(number)) {}
    Dimension(std::string_view name)  // NOLINT(google-explicit-constructor): so are names
        : symbol(name == "?" ? "" : name) {}
    Dimension(const char* name)  // NOLINT(google-explicit-constructor)
        : Dimension(std::string_view(name)) {}
    bool operator==(const Dimension&) const = default;
  };
  /// nullopt if the rank is not known.
  using Shape = std::optional<std::vector<Dimension>>;

  /// `name` may be "domain::Name". `version` is the version of the domain that the model imports.
  explicit OpTester(std::string_view name, int version = 1, std::string_view domain = "");

  /// A constant input is an initializer in every run, for operators that need a constant.
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
  /// The shapes for InferShapes, given or expected, of values without elements.
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

  /// Replaces the default tolerance of an output's element type, for all outputs or for one. The
  /// defaults are 1e-5 for float, 1e-9 for double, 2e-3 for Float16 and 2e-2 for BFloat16, absolute
  /// and relative; other types must match exactly.
  OpTester& SetTolerance(double absolute, double relative = 0);
  OpTester& SetOutputTolerance(std::string_view output, double absolute, double relative = 0);

  /// Does not run the case on the GPU, even if the operator has a CUDA kernel.
  OpTester& ExcludeCuda() {
    is_cuda_excluded_ = true;
    return *this;
  }

  /// Runs the case in every way, each of which must give the expected outputs: on the CPU, and on
  /// the GPU if there is one and the operator has a CUDA kernel. If there is no GPU, a printed line
  /// says so, and a case that only a GPU can run is skipped.
  void Run(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Report(Try(ExpectResult::kExpectSuccess, ""), file, line);
  }
  /// Like ONNX Runtime's own: "CUDAExecutionProvider" is the only provider that can be excluded.
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
  /// Tests the shape rule alone: from the shapes of the inputs it must infer exactly the expected
  /// shapes of the outputs, including symbols.
  void InferShapes(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Report({CheckShapes(ExpectResult::kExpectSuccess, ""), ""}, file, line);
  }
  void InferShapes(ExpectResult expected, std::string_view text = "",
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Report({CheckShapes(expected, text), ""}, file, line);
  }

  /// Return what Run and InferShapes would report, for other test frameworks; empty on success.
  std::vector<std::string> Check(ExpectResult expected, std::string_view text) const;
  std::vector<std::string> CheckShapes(ExpectResult expected, std::string_view text) const;

  // The names in ONNX Runtime's own OpTester.
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

  /// An input or output that was added.
  struct Value {
    std::string name;  ///< empty if it is omitted
    Shape shape;
    TensorValue tensor;  ///< element type 0 if it is omitted
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
    static_assert(kElementType<T> != 0, "not an element type of tensors");
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
  std::vector<std::string> mistakes_;  ///< mistakes in the case itself
  bool is_cuda_excluded_ = false;
};

}  // namespace opgraft
#pragma GCC visibility pop

/// The namespace in ONNX Runtime's own tree: together with opgraft/contrib.h, tests from there
/// compile without changes.
namespace onnxruntime::test {
using opgraft::OpTester;
}  // namespace onnxruntime::test
