// The schemas of the test pack for opgraft/contrib.h; their kernels are in kernels.cc.
#include <opgraft/contrib.h>

namespace onnxruntime {
namespace contrib {

constexpr const char* kTestDomain = "test.contrib";

ONNX_CONTRIB_OPERATOR_SCHEMA(Attributes)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .SetDoc("Tells its attributes.")
    .Input(0, "X", "any", "T", OpSchema::Optional)
    .Output(0, "Y", "the attributes as text", "tensor(string)")
    .Attr("number", "a float", AttributeProto::FLOAT, 1.5f)
    .Attr("count", "an integer", AttributeProto::INT, static_cast<int64_t>(3))
    .Attr("mode", "a text", AttributeProto::STRING, "add")
    .Attr("numbers", "floats", AttributeProto::FLOATS, std::vector<float>{1, 2})
    .Attr("counts", "integers, or none", AttributeProto::INTS, OPTIONAL_VALUE)
    .Attr("needed", "must be there", AttributeProto::INT)
    .TypeConstraint("T", {"tensor(float)"}, "floats");

ONNX_CONTRIB_OPERATOR_SCHEMA(Join)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "parts", "texts of one shape", "tensor(string)", OpSchema::Variadic)
    .Output(0, "whole", "joined", "tensor(string)")
    .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
      updateOutputElemType(ctx, 0, TensorProto::STRING);
      propagateShapeFromInputToOutput(ctx, 0, 0);
    });

ONNX_CONTRIB_OPERATOR_SCHEMA(Count)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "inputs", "of any types", "T", OpSchema::Variadic, /*is_homogeneous*/ false)
    .Output(0, "numbers", "the number of each input's type", "tensor(int64)")
    .TypeConstraint("T", {"tensor(float)", "tensor(int32)", "tensor(bool)"}, "some types");

ONNX_CONTRIB_OPERATOR_SCHEMA(Fail)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "X", "any", "T")
    .Output(0, "Y", "none", "T")
    .Attr("how", "in which way", AttributeProto::STRING)
    .TypeConstraint("T", {"tensor(float)"}, "floats");

ONNX_CONTRIB_OPERATOR_SCHEMA(AddConstant)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "X", "any", "T")
    .Input(1, "constant", "known when the kernel is made", "T")
    .Output(0, "Y", "X plus the constant", "T")
    .TypeConstraint("T", {"tensor(float)"}, "floats")
    .TypeAndShapeInferenceFunction(ONNX_NAMESPACE::propagateShapeAndTypeFromFirstInput);

ONNX_CONTRIB_OPERATOR_SCHEMA(Double)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "X", "any", "T")
    .Output(0, "Y", "X plus X", "T")
    .TypeConstraint("T", OpSchema::all_numeric_types(), "numbers")
    .TypeAndShapeInferenceFunction(ONNX_NAMESPACE::propagateShapeAndTypeFromFirstInput);

ONNX_CONTRIB_OPERATOR_SCHEMA(Version)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "X", "any", "tensor(float)")
    .Output(0, "Y", "the kernel's number", "tensor(int64)");

ONNX_CONTRIB_OPERATOR_SCHEMA(Version)
    .SetDomain(kTestDomain)
    .SinceVersion(2)
    .Input(0, "X", "any", "tensor(float)")
    .Output(0, "Y", "the kernel's number", "tensor(int64)");

ONNX_CONTRIB_OPERATOR_SCHEMA(Loops)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "X", "any", "T")
    .Output(0, "Y", "X + 1, by many loops", "T")
    .Attr("loop", "which", AttributeProto::STRING)
    .TypeConstraint("T", {"tensor(float)"}, "floats")
    .TypeAndShapeInferenceFunction(ONNX_NAMESPACE::propagateShapeAndTypeFromFirstInput);

// The shape [batch, 2 * rows, columns of both], and a symbol where it is one.
ONNX_CONTRIB_OPERATOR_SCHEMA(Shapes)
    .SetDomain(kTestDomain)
    .SinceVersion(1)
    .Input(0, "A", "[batch, rows, columns]", "T")
    .Input(1, "B", "[batch, columns]", "T")
    .Output(0, "Y", "zeros", "T")
    .Attr("times", "rows are multiplied by it", AttributeProto::INT, static_cast<int64_t>(2))
    .TypeConstraint("T", {"tensor(float)"}, "floats")
    .TypeAndShapeInferenceFunction([](ONNX_NAMESPACE::InferenceContext& ctx) {
      propagateElemTypeFromInputToOutput(ctx, 0, 0);
      if (!hasNInputShapes(ctx, 2)) return;
      const int64_t times = getAttribute(ctx, "times", 1);
      if (times < 1) fail_shape_inference("times is ", times, ", expected 1 or more");
      checkInputRank(ctx, 1, 2);
      ONNX_NAMESPACE::Dim batch;
      ONNX_NAMESPACE::Dim columns;
      unifyInputDim(ctx, 0, 0, batch);
      unifyInputDim(ctx, 1, 0, batch);
      unifyInputDim(ctx, 0, 2, columns);
      unifyInputDim(ctx, 1, 1, columns);
      updateOutputShape(ctx, 0, {batch, getInputShape(ctx, 0).dim(1) * times, columns});
    });

ONNX_MS_OPERATOR_SET_SCHEMA(
    OpgraftTestBroadcast, 1,
    OpSchema()
        .Input(0, "A", "one", "T")
        .Input(1, "B", "another", "T")
        .Output(0, "Y", "zeros of the common shape", "T")
        .Output(1, "size", "its size, if wanted", "tensor(int64)", OpSchema::Optional)
        .TypeConstraint("T", {"tensor(float)"}, "floats")
        .TypeAndShapeInferenceFunction([](ONNX_NAMESPACE::InferenceContext& ctx) {
          propagateElemTypeFromInputToOutput(ctx, 0, 0);
          if (hasNInputShapes(ctx, 2)) {
            bidirectionalBroadcastShapeInference(getInputShape(ctx, 0), getInputShape(ctx, 1),
                                                 *getOutputShape(ctx, 0));
          }
        }));

}  // namespace contrib
}  // namespace onnxruntime
