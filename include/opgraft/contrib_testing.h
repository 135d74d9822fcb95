// Tests in the style of ONNX Runtime's tree: TEST and OpTester in the same namespaces as there.
//
//   namespace onnxruntime { namespace test {
//   TEST(InverseContribOpTest, two_by_two_float) {
//     OpTester test("Inverse", 1, kMSDomain);
//     ...
#pragma once

#include "opgraft/contrib/numbers.h"  // IWYU pragma: export
#include "opgraft/contrib/schema.h"   // IWYU pragma: export
#include "opgraft/testing.h"          // IWYU pragma: export

namespace onnxruntime::test {

using opgraft::OpTester;

}  // namespace onnxruntime::test
