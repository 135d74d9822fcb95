// Tests of UTF-8 and the characters of NumPy.
#include "run/unicode.h"

#include <gtest/gtest.h>

namespace opgraft::run {
namespace {

TEST(UnicodeTest, EachLengthIsConvertedBothWays) {
  const std::u32string characters = U"a\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff";
  std::string text;
  for (const char32_t character : characters) ASSERT_TRUE(AppendUtf8(character, &text));
  EXPECT_EQ(text, "a\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
  std::u32string again;
  ASSERT_TRUE(FromUtf8(text, &again));
  EXPECT_EQ(again, characters);
}

TEST(UnicodeTest, MalformedTextsAreRefused) {
  std::string text;
  for (const std::uint32_t character : {0xD800U, 0xDFFFU, 0x110000U, 0xFFFFFFFFU}) {
    EXPECT_FALSE(AppendUtf8(character, &text));
  }
  std::u32string characters;
  for (const char* wrong : {"\x80", "\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\xf4\x90\x80\x80", "\xf0\x80\x80\x80", "\xc3(", "a\xe2\x82"}) {
    EXPECT_FALSE(FromUtf8(wrong, &characters)) << wrong;
  }
}

TEST(UnicodeTest, ATextIsPrintedAsJson) {
  EXPECT_EQ(FormatText("a b"), "\"a b\"");
  EXPECT_EQ(FormatText("\"\\\n\t\x01"), "\"\\\"\\\\\\n\\t\\u0001\"");
  EXPECT_EQ(FormatText("Gr\xc3\xbc"), "\"Gr\xc3\xbc\"");
}

}  // namespace
}  // namespace opgraft::run
