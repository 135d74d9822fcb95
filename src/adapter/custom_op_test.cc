// Tests of the layout of OrtCustomOp, and of calls through ONNX Runtime's tables of functions.
#include "adapter/custom_op.h"

#include <gtest/gtest.h>

#include <string_view>

namespace opgraft::ort {
namespace {

// The offsets of the members in ONNX Runtime's own header, onnxruntime_c_api.h.
TEST(CustomOpTableTest, MembersHaveTheRightOffsets) {
  EXPECT_EQ(offsetof(CustomOpTable, version), 0U);
  EXPECT_EQ(offsetof(CustomOpTable, CreateKernel), 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetName), 2 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetExecutionProviderType), 3 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetInputType), 4 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetInputTypeCount), 5 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetOutputType), 6 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetOutputTypeCount), 7 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, KernelCompute), 64U);
  EXPECT_EQ(offsetof(CustomOpTable, KernelDestroy), 9 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetInputCharacteristic), 10 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetOutputCharacteristic), 11 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetInputMemoryType), 12 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetVariadicInputMinArity), 13 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetVariadicInputHomogeneity), 14 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetVariadicOutputMinArity), 15 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetVariadicOutputHomogeneity), 16 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, CreateKernelV2), 17 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, KernelComputeV2), 18 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, InferOutputShapeFn), 19 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetStartVersion), 20 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetEndVersion), 21 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetMayInplace), 22 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, ReleaseMayInplace), 23 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, GetAliasMap), 24 * 8U);
  EXPECT_EQ(offsetof(CustomOpTable, ReleaseAliasMap), 25 * 8U);
}

TEST(CustomOpTableTest, StartsWithTheVersionAndNoFunctions) {
  const CustomOpTable table;
  EXPECT_EQ(table.version, kApiVersion);
  EXPECT_EQ(table.CreateKernel, nullptr);
  EXPECT_EQ(table.KernelCompute, nullptr);
  EXPECT_EQ(table.CreateKernelV2, nullptr);
  EXPECT_EQ(table.InferOutputShapeFn, nullptr);
  EXPECT_EQ(table.ReleaseAliasMap, nullptr);
}

/// A table like the runtime's: only functions, of various signatures.
struct FakeTable {
  int (*add)(int, int) = [](int left, int right) { return left + right; };
  int (*subtract)(int, int) = [](int left, int right) { return left - right; };
  void (*store)(int*) = [](int* place) { *place = 42; };
  const char* (*name)() = [] { return "fake"; };
};

TEST(FunctionTest, CallsTheSlotThatItNames) {
  const FakeTable table;
  EXPECT_EQ((Function<FakeTable, 0, int(int, int)>()(&table, 5, 3)), 8);
  EXPECT_EQ((Function<FakeTable, 1, int(int, int)>()(&table, 5, 3)), 2);
  int place = 0;
  Function<FakeTable, 2, void(int*)>()(&table, &place);
  EXPECT_EQ(place, 42);
  EXPECT_EQ((std::string_view(Function<FakeTable, 3, const char*()>()(&table))), "fake");
}

/// The first slots of OrtApiBase, and of OrtApi up to ReleaseStatus.
struct FakeBase {
  const OrtApi* (*get_api)(std::uint32_t) = nullptr;
  const char* (*get_version_string)() = nullptr;
};
struct FakeApi {
  OrtStatus* (*create_status)(int, const char*) = nullptr;
  void (*get_error_code)() = nullptr;
  const char* (*get_error_message)(const OrtStatus*) = nullptr;
  void (*others[90])() = {};
  void (*release_status)(OrtStatus*) = nullptr;
};

TEST(FunctionTest, TheBaseReturnsTheTableOfAVersion) {
  static const FakeApi api;
  FakeBase fake;
  fake.get_api = [](std::uint32_t version) {
    return version == kApiVersion ? reinterpret_cast<const OrtApi*>(&api) : nullptr;
  };
  fake.get_version_string = [] { return "1.31.1"; };
  const auto* base = reinterpret_cast<const OrtApiBase*>(&fake);
  EXPECT_EQ(GetApi(base, kApiVersion), reinterpret_cast<const OrtApi*>(&api));
  EXPECT_EQ(GetApi(base, kApiVersion + 1), nullptr);
  EXPECT_EQ(std::string_view(GetVersionString(base)), "1.31.1");
}

TEST(FunctionTest, AStatusIsMadeReadAndReleasedByItsOwnSlots) {
  static const char* message = nullptr;
  FakeApi fake;
  fake.create_status = [](int code, const char* text) -> OrtStatus* {
    message = code == kFail ? text : "another code";
    return reinterpret_cast<OrtStatus*>(&message);
  };
  fake.get_error_message = [](const OrtStatus* status) {
    return *reinterpret_cast<const char* const*>(status);
  };
  fake.release_status = [](OrtStatus* status) {
    *reinterpret_cast<const char**>(status) = "released";
  };
  const auto* api = reinterpret_cast<const OrtApi*>(&fake);
  OrtStatus* status = CreateStatus(api, kFail, "why");
  EXPECT_EQ(std::string_view(GetErrorMessage(api, status)), "why");
  ReleaseStatus(api, status);
  EXPECT_EQ(std::string_view(message), "released");
}

}  // namespace
}  // namespace opgraft::ort
