#include "model/rope.h"

#include <gtest/gtest.h>

#include <utility>

namespace opgraft::model {
namespace {

Rope Owning(std::string text) {
  Rope rope;
  rope.Own(std::move(text));
  return rope;
}

TEST(RopeTest, IsEmptyAtFirst) {
  EXPECT_EQ(Rope().size(), 0U);
  EXPECT_EQ(Rope().Gather(), "");
}

TEST(RopeTest, ABorrowedSliceIsNotCopiedBeforeTheEnd) {
  std::string weights = "weights";
  Rope rope;
  rope.Borrow(weights);
  weights[0] = 'W';
  EXPECT_EQ(rope.Gather(), "Weights");
}

TEST(RopeTest, AnOwnedTextIsACopy) {
  std::string text = "text";
  Rope rope;
  rope.Own(text);
  text[0] = 'T';
  EXPECT_EQ(rope.Gather(), "text");
}

TEST(RopeTest, KeepsTheOrderInWhichThingsWereAdded) {
  Rope rope;
  rope.Borrow("a");
  rope.Own("bc");
  rope.Borrow("");
  rope.Append(Owning("def"));
  rope.Borrow("g");
  EXPECT_EQ(rope.Gather(), "abcdefg");
  EXPECT_EQ(rope.size(), 7U);
}

TEST(RopeTest, OwnedTextsStayPutWhileTheRopeGrowsAndMoves) {
  Rope rope;
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);  // short enough for the small string optimisation
    expected += number;
    if (i % 3 == 0) {
      rope.Append(Owning(number));
    } else {
      rope.Own(number);
    }
  }
  const Rope moved = std::move(rope);
  EXPECT_EQ(moved.Gather(), expected);
  EXPECT_EQ(moved.size(), expected.size());
}

TEST(RopeTest, AMessageHasItsTagAndLengthInFront) {
  Rope rope;
  rope.Borrow("x");
  rope.AddMessage(1, Owning("abc"));
  EXPECT_EQ(rope.Gather(),
            "x\x0a\x03"
            "abc");
  EXPECT_EQ(rope.size(), 6U);
}

TEST(RopeTest, AnEmptyMessageIsThereAllTheSame) {
  Rope rope;
  rope.AddMessage(7, Rope());
  EXPECT_EQ(rope.Gather(), std::string("\x3a\x00", 2));
  EXPECT_EQ(rope.size(), 2U);
}

TEST(RopeTest, LargeTagsAndLengthsTakeMoreBytes) {
  const std::string text(300, 't');
  Rope rope;
  rope.AddMessage(25, Owning(text));
  EXPECT_EQ(rope.Gather(), "\xca\x01\xac\x02" + text);
  EXPECT_EQ(rope.size(), 304U);
}

TEST(RopeTest, AMessageInAMessageIsCountedWithItsHead) {
  Rope inner;
  inner.AddMessage(2, Owning("ab"));
  Rope outer;
  outer.AddMessage(1, std::move(inner));
  EXPECT_EQ(outer.Gather(),
            "\x0a\x04\x12\x02"
            "ab");
}

}  // namespace
}  // namespace opgraft::model
