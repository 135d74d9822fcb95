#include "opgraft/status.h"

#include <gtest/gtest.h>

namespace opgraft {
namespace {

TEST(StatusTest, IsFineByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kNone);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.ToString(), "OK");
}

TEST(StatusTest, TheTextOpensWithTheNameOfThePythonClass) {
  EXPECT_EQ(Status::Error("why").ToString(), "opgraft.Error: why");
  EXPECT_EQ(Status::PyOp("why").ToString(), "opgraft.PyOpError: why");
  EXPECT_EQ(Status::Model("why").ToString(), "opgraft.ModelError: why");
  EXPECT_EQ(Status::Policy("why").ToString(), "opgraft.PolicyError: why");
  EXPECT_EQ(Status::Unavailable("why").ToString(), "opgraft.UnavailableError: why");
}

TEST(StatusTest, FindsEveryKindBehindTheWordsOfTheRuntime) {
  for (const ErrorKind kind : {ErrorKind::kError, ErrorKind::kPyOp, ErrorKind::kModel,
                               ErrorKind::kPolicy, ErrorKind::kUnavailable}) {
    const Status error(kind, "line one\nline two");
    EXPECT_FALSE(error.ok());
    const Status found = Status::FindIn("Non-zero status code returned: " + error.ToString());
    EXPECT_EQ(found.kind(), kind);
    EXPECT_EQ(found.message(), "line one\nline two");
  }
}

TEST(StatusTest, TheFirstMarkWins) {
  const Status policy = Status::FindIn("at opgraft.PolicyError: one opgraft.Error: two");
  EXPECT_EQ(policy.kind(), ErrorKind::kPolicy);
  EXPECT_EQ(policy.message(), "one opgraft.Error: two");

  const Status error = Status::FindIn("at opgraft.Error: one opgraft.PolicyError: two");
  EXPECT_EQ(error.kind(), ErrorKind::kError);
  EXPECT_EQ(error.message(), "one opgraft.PolicyError: two");
}

TEST(StatusTest, AMarkAtTheEndIsAnErrorWithoutWords) {
  const Status status = Status::FindIn("Fail: opgraft.ModelError: ");
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_EQ(status.message(), "");
}

TEST(StatusTest, FindsNothingWhereThereIsNoMark) {
  for (const char* text : {"", "Fail", "opgraft.Error", "Error: why", "opgraft.OtherError: why",
                           "opgraft.: why", "OK"}) {
    EXPECT_TRUE(Status::FindIn(text).ok()) << text;
  }
}

}  // namespace
}  // namespace opgraft
