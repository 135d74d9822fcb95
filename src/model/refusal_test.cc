#include "model/refusal.h"

#include <gtest/gtest.h>

#include <string>

namespace opgraft::ort {
namespace {

TEST(RefusalTest, AnOperatorThatNobodyKnowsIsNamedWithTheWaysToGetIt) {
  const Status status =
      ToRefusal(Status::Error("Fatal error: my.domain:Median(-1) is not a registered function/op"));
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  for (const char* word :
       {"Fatal error", "operator my.domain::Median is not defined", "imports=", "--import"}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

TEST(RefusalTest, TwoLibrariesWithOneDomainAreAnErrorThatSaysWhatToDo) {
  for (const char* text :
       {"Domain already set in registry",
        "Failed to add kernel for A ai.onnx.contrib CPUExecutionProvider: Conflicting with a "
        "registered kernel with op versions. the since version is: 1"}) {
    const Status status = ToRefusal(Status::Error(text));
    EXPECT_EQ(status.kind(), ErrorKind::kError);
    for (const char* word : {text, "in the same domain", "opgraft.extensions.get_library_path()"}) {
      EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    }
  }
}

TEST(RefusalTest, OtherFaultsOfTheModelHaveNoHint) {
  const Status status = ToRefusal(Status::Error("Load model from m.onnx failed:x"));
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_EQ(status.message(), "ONNX Runtime refuses the model: Load model from m.onnx failed:x");
}

TEST(RefusalTest, WhatIsNotTheModelsFaultStaysAsItIs) {
  EXPECT_EQ(ToRefusal(Status::Error("out of memory")).kind(), ErrorKind::kError);
  EXPECT_EQ(ToRefusal(Status::Policy("invalid model")).message(), "invalid model");
  EXPECT_EQ(ToRefusal(Status::PyOp("x")).kind(), ErrorKind::kPyOp);
  EXPECT_TRUE(ToRefusal(Status()).ok());
}

}  // namespace
}  // namespace opgraft::ort
