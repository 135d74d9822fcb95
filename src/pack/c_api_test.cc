// Tests of the layout of the contract: if a member moves, OPGRAFT_PACK_VERSION must be raised.
#include "opgraft/c_api.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

namespace {

// The layout of version 3, on a 64-bit machine.
static_assert(OPGRAFT_PACK_VERSION == 3);
static_assert(sizeof(void*) == 8);

#define EXPECT_PLACE(type, member, offset) \
  EXPECT_EQ(offsetof(type, member), std::size_t{offset}) << #type "::" #member
#define EXPECT_SIZE(type, size)                        \
  EXPECT_EQ(sizeof(type), std::size_t{size}) << #type; \
  static_assert(std::is_standard_layout_v<type> && std::is_trivial_v<type>)

TEST(PackContract, Text) {
  EXPECT_PLACE(OpgraftText, data, 0);
  EXPECT_PLACE(OpgraftText, size, 8);
  EXPECT_SIZE(OpgraftText, 16);
}

TEST(PackContract, Tensor) {
  EXPECT_PLACE(OpgraftTensor, data, 0);
  EXPECT_PLACE(OpgraftTensor, shape, 8);
  EXPECT_PLACE(OpgraftTensor, rank, 16);
  EXPECT_PLACE(OpgraftTensor, element_type, 24);
  EXPECT_SIZE(OpgraftTensor, 32);
}

TEST(PackContract, Attribute) {
  EXPECT_PLACE(OpgraftAttribute, kind, 0);
  EXPECT_PLACE(OpgraftAttribute, count, 8);
  EXPECT_PLACE(OpgraftAttribute, floats, 16);
  EXPECT_PLACE(OpgraftAttribute, integers, 24);
  EXPECT_PLACE(OpgraftAttribute, texts, 32);
  EXPECT_PLACE(OpgraftAttribute, tensors, 40);
  EXPECT_SIZE(OpgraftAttribute, 48);
}

TEST(PackContract, Dimension) {
  EXPECT_PLACE(OpgraftDimension, size, 0);
  EXPECT_PLACE(OpgraftDimension, symbol, 8);
  EXPECT_SIZE(OpgraftDimension, 16);
}

TEST(PackContract, Shape) {
  EXPECT_PLACE(OpgraftShape, element_type, 0);
  EXPECT_PLACE(OpgraftShape, has_rank, 4);
  EXPECT_PLACE(OpgraftShape, rank, 8);
  EXPECT_PLACE(OpgraftShape, dimensions, 16);
  EXPECT_SIZE(OpgraftShape, 24);
}

TEST(PackContract, Error) {
  EXPECT_PLACE(OpgraftError, kind, 0);
  EXPECT_PLACE(OpgraftError, text, 8);
  EXPECT_SIZE(OpgraftError, 24);
}

TEST(PackContract, NodeTable) {
  EXPECT_PLACE(OpgraftNodeTable, fail, 0);
  EXPECT_PLACE(OpgraftNodeTable, name, 8);
  EXPECT_PLACE(OpgraftNodeTable, input_count, 16);
  EXPECT_PLACE(OpgraftNodeTable, output_count, 24);
  EXPECT_PLACE(OpgraftNodeTable, input_type, 32);
  EXPECT_PLACE(OpgraftNodeTable, attribute, 40);
  EXPECT_PLACE(OpgraftNodeTable, constant, 48);
  EXPECT_SIZE(OpgraftNodeTable, 56);
}

TEST(PackContract, Node) {
  EXPECT_PLACE(OpgraftNode, table, 0);
  EXPECT_SIZE(OpgraftNode, 8);
}

TEST(PackContract, CallTable) {
  EXPECT_PLACE(OpgraftCallTable, fail, 0);
  EXPECT_PLACE(OpgraftCallTable, input, 8);
  EXPECT_PLACE(OpgraftCallTable, output, 16);
  EXPECT_PLACE(OpgraftCallTable, store_texts, 24);
  EXPECT_PLACE(OpgraftCallTable, scratch, 32);
  EXPECT_PLACE(OpgraftCallTable, parallel_for, 40);
  EXPECT_PLACE(OpgraftCallTable, log, 48);
  EXPECT_PLACE(OpgraftCallTable, stream, 56);  // from version 2 on
  EXPECT_SIZE(OpgraftCallTable, 64);
}

TEST(PackContract, Call) {
  EXPECT_PLACE(OpgraftCall, table, 0);
  EXPECT_SIZE(OpgraftCall, 8);
}

TEST(PackContract, InferenceTable) {
  EXPECT_PLACE(OpgraftInferenceTable, fail, 0);
  EXPECT_PLACE(OpgraftInferenceTable, input_count, 8);
  EXPECT_PLACE(OpgraftInferenceTable, output_count, 16);
  EXPECT_PLACE(OpgraftInferenceTable, input, 24);
  EXPECT_PLACE(OpgraftInferenceTable, attribute, 32);
  EXPECT_PLACE(OpgraftInferenceTable, constant, 40);
  EXPECT_PLACE(OpgraftInferenceTable, set_output, 48);
  EXPECT_SIZE(OpgraftInferenceTable, 56);
}

TEST(PackContract, Inference) {
  EXPECT_PLACE(OpgraftInference, table, 0);
  EXPECT_SIZE(OpgraftInference, 8);
}

TEST(PackContract, Parameter) {
  EXPECT_PLACE(OpgraftParameter, name, 0);
  EXPECT_PLACE(OpgraftParameter, description, 8);
  EXPECT_PLACE(OpgraftParameter, occurrence, 16);
  EXPECT_PLACE(OpgraftParameter, type, 20);
  EXPECT_PLACE(OpgraftParameter, minimum, 24);
  EXPECT_SIZE(OpgraftParameter, 32);
}

TEST(PackContract, Type) {
  EXPECT_PLACE(OpgraftType, name, 0);
  EXPECT_PLACE(OpgraftType, description, 8);
  EXPECT_PLACE(OpgraftType, allowed, 16);
  EXPECT_PLACE(OpgraftType, allowed_count, 24);
  EXPECT_PLACE(OpgraftType, is_tied, 32);
  EXPECT_SIZE(OpgraftType, 40);
}

TEST(PackContract, AttributeParameter) {
  EXPECT_PLACE(OpgraftAttributeParameter, name, 0);
  EXPECT_PLACE(OpgraftAttributeParameter, description, 8);
  EXPECT_PLACE(OpgraftAttributeParameter, kind, 16);
  EXPECT_PLACE(OpgraftAttributeParameter, is_required, 20);
  EXPECT_PLACE(OpgraftAttributeParameter, fallback, 24);
  EXPECT_SIZE(OpgraftAttributeParameter, 72);
}

TEST(PackContract, InPlace) {
  EXPECT_PLACE(OpgraftInPlace, input, 0);
  EXPECT_PLACE(OpgraftInPlace, output, 4);
  EXPECT_SIZE(OpgraftInPlace, 8);
}

TEST(PackContract, Kernel) {
  EXPECT_PLACE(OpgraftKernel, device, 0);
  EXPECT_PLACE(OpgraftKernel, types, 8);
  EXPECT_PLACE(OpgraftKernel, create, 16);
  EXPECT_PLACE(OpgraftKernel, compute, 24);
  EXPECT_PLACE(OpgraftKernel, destroy, 32);
  EXPECT_PLACE(OpgraftKernel, host_inputs, 40);  // from version 2 on
  EXPECT_SIZE(OpgraftKernel, 48);
}

TEST(PackContract, Operator) {
  EXPECT_PLACE(OpgraftOperator, domain, 0);
  EXPECT_PLACE(OpgraftOperator, name, 8);
  EXPECT_PLACE(OpgraftOperator, documentation, 16);
  EXPECT_PLACE(OpgraftOperator, torch_name, 24);
  EXPECT_PLACE(OpgraftOperator, since_version, 32);
  EXPECT_PLACE(OpgraftOperator, inputs, 40);
  EXPECT_PLACE(OpgraftOperator, input_count, 48);
  EXPECT_PLACE(OpgraftOperator, outputs, 56);
  EXPECT_PLACE(OpgraftOperator, output_count, 64);
  EXPECT_PLACE(OpgraftOperator, types, 72);
  EXPECT_PLACE(OpgraftOperator, type_count, 80);
  EXPECT_PLACE(OpgraftOperator, attributes, 88);
  EXPECT_PLACE(OpgraftOperator, attribute_count, 96);
  EXPECT_PLACE(OpgraftOperator, in_place, 104);
  EXPECT_PLACE(OpgraftOperator, in_place_count, 112);
  EXPECT_PLACE(OpgraftOperator, kernels, 120);
  EXPECT_PLACE(OpgraftOperator, kernel_count, 128);
  EXPECT_PLACE(OpgraftOperator, infer, 136);
  EXPECT_PLACE(OpgraftOperator, torch_calls, 144);  // from version 3 on
  EXPECT_PLACE(OpgraftOperator, torch_call_count, 152);
  EXPECT_SIZE(OpgraftOperator, 160);
}

TEST(PackContract, TorchCall) {
  EXPECT_PLACE(OpgraftTorchArgument, name, 0);
  EXPECT_PLACE(OpgraftTorchArgument, argument, 8);
  EXPECT_PLACE(OpgraftTorchArgument, value, 16);
  EXPECT_SIZE(OpgraftTorchArgument, 64);
  EXPECT_PLACE(OpgraftTorchCall, name, 0);
  EXPECT_PLACE(OpgraftTorchCall, arguments, 8);
  EXPECT_PLACE(OpgraftTorchCall, argument_count, 16);
  EXPECT_PLACE(OpgraftTorchCall, left_to_torch, 24);
  EXPECT_PLACE(OpgraftTorchCall, left_to_torch_count, 32);
  EXPECT_SIZE(OpgraftTorchCall, 40);
}

TEST(PackContract, Pack) {
  EXPECT_PLACE(OpgraftPack, version, 0);
  EXPECT_PLACE(OpgraftPack, problem, 8);
  EXPECT_PLACE(OpgraftPack, operators, 16);
  EXPECT_PLACE(OpgraftPack, operator_count, 24);
  EXPECT_SIZE(OpgraftPack, 32);
}

TEST(PackContract, Numbers) {
  EXPECT_EQ(OPGRAFT_REQUIRED, 0);
  EXPECT_EQ(OPGRAFT_OPTIONAL, 1);
  EXPECT_EQ(OPGRAFT_VARIADIC, 2);
  EXPECT_STREQ(OPGRAFT_PACK_SYMBOL, "opgraft_pack");
}

}  // namespace
