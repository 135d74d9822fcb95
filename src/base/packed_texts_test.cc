// Tests of lists of texts in one text.
#include "base/packed_texts.h"

#include <gtest/gtest.h>

namespace opgraft {
namespace {

TEST(PackedTextsTest, WhatIsPackedComesBack) {
  const std::string zero("a\0b", 3);
  std::vector<std::string> texts = {"kept"};
  ASSERT_TRUE(UnpackTexts(PackTexts({"", zero, "3:x", "\xff"}), &texts));
  EXPECT_EQ(texts, (std::vector<std::string>{"", zero, "3:x", "\xff"}));
  ASSERT_TRUE(UnpackTexts("", &texts));
  EXPECT_TRUE(texts.empty());
}

TEST(PackedTextsTest, AnythingElseIsRefused) {
  std::vector<std::string> texts = {"kept"};
  for (const char* wrong : {"3", "3:ab", ":", "x:a", "-1:a", "99999999999999999999999:a", "1:a2"}) {
    EXPECT_FALSE(UnpackTexts(wrong, &texts)) << wrong;
  }
  EXPECT_EQ(texts, std::vector<std::string>{"kept"});
}

}  // namespace
}  // namespace opgraft
