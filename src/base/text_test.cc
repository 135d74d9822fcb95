#include "base/text.h"

#include <gtest/gtest.h>

namespace opgraft {
namespace {

using std::string_view_literals::operator""sv;

TEST(ReadableTest, KeepsWhatIsUtf8) {
  for (const char* text : {"", "plain\n", "Gr\u00fc\u00dfe", "\u20ac", "\U0001F600"}) {
    EXPECT_EQ(Readable(text), text);
  }
}

TEST(ReadableTest, EscapesWhatIsNot) {
  EXPECT_EQ(Readable("a\0b"sv), "a\\x00b");
  EXPECT_EQ(Readable("\033[31m\t"), "\\x1b[31m\t");
  EXPECT_EQ(Readable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Readable("\xc3"), "\\xc3");                    // cut short
  EXPECT_EQ(Readable("\xc3("), "\\xc3(");                  // no continuation
  EXPECT_EQ(Readable("\xc0\x80"), "\\xc0\\x80");           // overlong
  EXPECT_EQ(Readable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(Readable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(ReadableTest, ANameStaysInItsLine) {
  EXPECT_EQ(ReadableName("Gr\u00fc\u00dfe \u20ac"), "Gr\u00fc\u00dfe \u20ac");
  EXPECT_EQ(ReadableName("a\nimport os\r\tb"), "a\\x0aimport os\\x0d\\x09b");
  EXPECT_EQ(ReadableName("\u0085\u2028\u2029"), "\\xc2\\x85\\xe2\\x80\\xa8\\xe2\\x80\\xa9");
  EXPECT_EQ(ReadableName("\u202e\u2066"),
            "\\xe2\\x80\\xae\\xe2\\x81\\xa6");  // changes the direction
}

TEST(DimensionsTextTest, JoinsSizesAndMarksTheUnknown) {
  EXPECT_EQ(DimensionsText({}), "");
  const std::int64_t dimensions[] = {2, -1, 3};
  EXPECT_EQ(DimensionsText(dimensions), "2, ?, 3");
}

}  // namespace
}  // namespace opgraft
