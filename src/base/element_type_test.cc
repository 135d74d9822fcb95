// Tests of the table of element types, and of elements that share bytes.
#include "base/element_type.h"

#include <gtest/gtest.h>

#include <string>

namespace opgraft {
namespace {

constexpr std::int64_t kInt4 = 22;
constexpr std::int64_t kInt2 = 26;

std::string PackAll(std::int64_t type, const std::string& unpacked) {
  const ElementType& known = *FindElementType(type);
  std::string packed(known.PackedSize(unpacked.size()), '\xff');
  Pack(known, unpacked.data(), unpacked.size(), packed.data());
  return packed;
}

std::string UnpackAll(std::int64_t type, const std::string& packed, std::size_t elements) {
  std::string unpacked(elements, '\0');
  Unpack(*FindElementType(type), packed.data(), elements, unpacked.data());
  return unpacked;
}

TEST(ElementTypeTest, EachStandsAtItsNumber) {
  std::int64_t number = 0;
  for (; FindElementType(number) != nullptr; ++number) {
    const ElementType& type = *FindElementType(number);
    EXPECT_EQ(type.number, number);
    EXPECT_EQ(type.IsPacked() ? 1U : static_cast<std::size_t>(type.bits) / 8, type.size);
  }
  EXPECT_EQ(number, 29);
  EXPECT_EQ(FindElementType(-1), nullptr);
  EXPECT_EQ(FindElementType(kString)->name, "string");
}

TEST(ElementTypeTest, TheRuntimeCarriesThese) {
  for (const std::int64_t number : {1, 8, 9, 16, 17, 20, 21, 22, 23}) {
    EXPECT_TRUE(FindElementType(number)->is_carried) << number;
  }
  for (const std::int64_t number : {0, 14, 15, 24, 25, 26, 27, 28}) {
    EXPECT_FALSE(FindElementType(number)->is_carried) << number;
  }
}

TEST(ElementTypeTest, TheLowestNibbleComesFirst) {
  EXPECT_EQ(PackAll(kInt4, "\x01\x0e\x07"), "\xe1\x07");
  EXPECT_EQ(UnpackAll(kInt4, "\xe1\x07", 3), "\x01\x0e\x07");
  EXPECT_EQ(PackAll(kInt4, "\xf1\xfe"), "\xe1");  // the bits above an element are ignored
  EXPECT_EQ(PackAll(kInt4, ""), "");
}

TEST(ElementTypeTest, FourElementsOfTwoBitsShareAByte) {
  const std::string unpacked("\x01\x02\x03\x00\x02", 5);
  EXPECT_EQ(PackAll(kInt2, unpacked), "\x39\x02");
  EXPECT_EQ(UnpackAll(kInt2, "\x39\x02", 5), unpacked);
}

TEST(ElementTypeTest, ElementsOfSixBitsLieAcrossBytes) {
  constexpr std::int64_t kFloat6 = 27;
  const std::string unpacked("\x01\x3f\x2a\x15\x3e", 5);
  const std::string packed("\xc1\xaf\x56\x3e", 4);
  EXPECT_EQ(PackAll(kFloat6, unpacked), packed);
  EXPECT_EQ(UnpackAll(kFloat6, packed, 5), unpacked);
}

}  // namespace
}  // namespace opgraft
