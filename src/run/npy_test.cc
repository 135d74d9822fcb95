// Tests of reading, writing and printing arrays.
#include "run/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "core/platform.h"

namespace opgraft::run {
namespace {

/// ONNX's numbers of the types that a .npy file holds, with the size of an element.
constexpr std::pair<std::int32_t, std::size_t> kTypes[] = {
    {1, 4}, {2, 1}, {3, 1},  {4, 2},  {5, 2},  {6, 4},
    {7, 8}, {9, 1}, {10, 2}, {11, 8}, {12, 4}, {13, 8},
};

/// Returns a path that no other test uses, because tests run in parallel.
std::string TestPath() {
  return testing::TempDir() + "opgraft_npy_" +
         testing::UnitTest::GetInstance()->current_test_info()->name() + ".npy";
}

Status ReadBytes(const std::string& file, Array* array) {
  std::ofstream(TestPath(), std::ios::binary) << file;
  return ReadNpy(TestPath(), array);
}

/// Returns a file of version 1, or of version 2, which has a wider length field.
std::string File(const std::string& header, const std::string& data, bool is_long = false) {
  std::string length(is_long ? 4 : 2, '\0');
  length[0] = static_cast<char>(header.size());  // less than 128 in every test
  return std::string("\x93NUMPY") + (is_long ? '\x02' : '\x01') + '\0' + length + header + data;
}

std::string Header(const std::string& description, const std::string& shape) {
  return "{'descr': '" + description + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

/// Expects an error that names the file and says `why`.
void ExpectRefused(const std::string& file, const std::string& why) {
  Array array;
  const Status status = ReadBytes(file, &array);
  EXPECT_EQ(status.kind(), ErrorKind::kError) << why;
  EXPECT_NE(status.message().find("'" + TestPath() + "'"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

template <class Element>
std::string Formatted(std::int32_t element_type, const std::vector<Element>& elements) {
  Array array{element_type, {static_cast<std::int64_t>(elements.size())}, ""};
  array.data.resize(elements.size() * sizeof(Element));
  std::memcpy(array.data.data(), elements.data(), array.data.size());
  return Format(array);
}

TEST(NpyTest, EveryTypeAndShapeIsReadBack) {
  const std::vector<std::int64_t> shapes[] = {{}, {3}, {2, 3}, {0}, {4, 0, 2}, {1, 2, 1, 3, 1, 1}};
  for (const auto& [element_type, size] : kTypes) {
    for (const std::vector<std::int64_t>& shape : shapes) {
      Array array{element_type, shape, ""};
      for (std::size_t i = 0; i < array.Elements() * size; ++i) {
        array.data += static_cast<char>(i * 37);
      }
      ASSERT_TRUE(WriteNpy(TestPath(), array).ok());
      Array read{77, {5, 5}, "what was there before"};
      const Status status = ReadNpy(TestPath(), &read);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(read.element_type, array.element_type);
      EXPECT_EQ(read.shape, array.shape);
      EXPECT_EQ(read.data, array.data);
    }
  }
}

TEST(NpyTest, WritesTheBytesThatNumPyWrites) {
  const std::string data("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);
  ASSERT_TRUE(WriteNpy(TestPath(), {1, {2}, data}).ok());
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  std::string file;
  ASSERT_TRUE(platform::ReadFile(TestPath(), &file).ok());
  EXPECT_EQ(file, std::string("\x93NUMPY\x01\x00v\x00", 10) + header + "\n" + data);
}

TEST(NpyTest, ATypeThatIsNotCarriedIsNotWritten) {
  const Status status = WriteNpy(TestPath(), {14, {1}, "12345678"});
  EXPECT_EQ(status.kind(), ErrorKind::kError);
  EXPECT_NE(status.message().find("complex64"), std::string::npos);
}

TEST(NpyTest, APathThatCannotBeWrittenIsNamed) {
  const Status status = WriteNpy("/no/such/folder/array.npy", {1, {1}, "1234"});
  EXPECT_EQ(status.kind(), ErrorKind::kError);
  EXPECT_NE(status.message().find("'/no/such/folder/array.npy'"), std::string::npos);
}

TEST(NpyTest, ReadsBothVersions) {
  for (const bool is_long : {false, true}) {
    Array array;
    const Status status = ReadBytes(File(Header("|u1", "(2, 1)"), "ab", is_long), &array);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(array.element_type, 2);
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(array.data, "ab");
  }
}

TEST(NpyTest, ATruncatedFileIsRefused) {
  const std::string whole = File(Header("<i2", "(3,)"), "abcdef");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Array array;
    EXPECT_EQ(ReadBytes(whole.substr(0, size), &array).kind(), ErrorKind::kError) << size;
  }
  ExpectRefused(whole.substr(0, 9), "it is not a .npy file");
  ExpectRefused(whole.substr(0, 30), "it is truncated");
  Array array;
  EXPECT_TRUE(ReadBytes(whole, &array).ok());
}

TEST(NpyTest, AFileOfAnotherKindIsRefused) {
  ExpectRefused("PK\x03\x04 a file of another kind", "it is not a .npy file");
  Array array;
  EXPECT_EQ(ReadNpy("/no/such/array.npy", &array).kind(), ErrorKind::kError);
}

TEST(NpyTest, FortranOrderIsRefusedWithTheLineThatFixesIt) {
  ExpectRefused(File("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 1), }\n", "ab"),
                "Fortran order. Fix: save numpy.ascontiguousarray(array)");
}

TEST(NpyTest, AnElementTypeThatIsNotCarriedIsNamed) {
  ExpectRefused(File(Header(">f4", "(1,)"), "1234"), "of type '>f4'");
  ExpectRefused(File(Header("|O", "(1,)"), "1234"), "it holds pickled Python objects");
  ExpectRefused(File(Header("<c8", "(1,)"), "12345678"), "of type '<c8'");
  ExpectRefused(File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"),
                "expected bool, integers, floats or str");
}

TEST(NpyTest, StringsAreReadBack) {
  Array written{8, {3}, ""};
  written.strings = {std::string("a\0b", 3), "", "Gr\xc3\xbc\xf0\x9f\x98\x80"};
  ASSERT_TRUE(WriteNpy(TestPath(), written).ok());
  Array read;
  ASSERT_TRUE(ReadNpy(TestPath(), &read).ok());
  EXPECT_EQ(read.element_type, 8);
  EXPECT_EQ(read.shape, written.shape);
  EXPECT_EQ(read.strings, written.strings);
}

TEST(NpyTest, AStringThatAFileCannotHoldIsRefused) {
  for (const std::string& text : {std::string("\xff"), std::string("a\0", 2)}) {
    Array array{8, {1}, ""};
    array.strings = {text};
    const Status status = WriteNpy(TestPath(), array);
    EXPECT_NE(status.message().find("cannot hold the string"), std::string::npos);
  }
}

TEST(NpyTest, MalformedStringsAreRefused) {
  ExpectRefused(File(Header("<U1", "(1,)"), std::string("\0\xd8\0\0", 4)), "Unicode");
  ExpectRefused(File(Header("<U2", "(1,)"), "1234"), "it holds 4 bytes of elements, expected 8");
  ExpectRefused(File(Header(">U1", "(1,)"), "1234"), "of type '>U1'");
  ExpectRefused(File(Header("<U", "(1,)"), "1234"), "of type '<U'");
  ExpectRefused(File(Header("<U9999999999999", "(1,)"), ""), "of type '<U9999999999999'");
  ExpectRefused(File(Header("<U0", "(4611686018427387904,)"), ""), "too large");
}

TEST(NpyTest, UntypedElementsKeepTheirSize) {
  Array read;
  std::ofstream(TestPath(), std::ios::binary) << File(Header("<V2", "(2,)"), "1234");
  ASSERT_TRUE(ReadNpy(TestPath(), &read).ok());
  EXPECT_EQ(read.element_type, 0);
  EXPECT_EQ(read.untyped_size, 2U);
  EXPECT_EQ(read.data, "1234");
  ASSERT_TRUE(WriteNpy(TestPath(), {16, {2}, "1234"}).ok());  // bfloat16
  read = {};
  ASSERT_TRUE(ReadNpy(TestPath(), &read).ok());
  EXPECT_EQ(read.untyped_size, 2U);
}

TEST(NpyTest, TheNumberOfElementsMustMatchTheShape) {
  ExpectRefused(File(Header("<f4", "(3,)"), "1234"), "it holds 4 bytes of elements, expected 12");
  ExpectRefused(File(Header("<f4", "()"), "12345"), "it holds 5 bytes of elements, expected 4");
  ExpectRefused(File(Header("<f4", "(0, 3)"), "1"), "it holds 1 bytes of elements, expected 0");
}

TEST(NpyTest, AShapeThatOverflowsIsRefused) {
  ExpectRefused(File(Header("<f4", "(4611686018427387904,)"), ""), "its shape is too large");
  ExpectRefused(File(Header("|u1", "(4294967296, 4294967296)"), ""), "its shape is too large");
  ExpectRefused(File(Header("<f8", "(99999999999999999999,)"), ""), "its shape is too large");
}

TEST(NpyTest, AMalformedShapeIsRefused) {
  ExpectRefused(File(Header("|u1", "(-1,)"), ""), "its shape is (-1,)");
  ExpectRefused(File(Header("|u1", "(a,)"), "1"), "its shape is (a,)");
  ExpectRefused(File(Header("|u1", "(1, x)"), "1"), "its shape is (1, x)");
}

TEST(NpyTest, AHeaderWithoutAShapeIsRefused) {
  ExpectRefused(File("{'descr': '|u1', 'fortran_order': False, }\n", "1"), "shape");
}

TEST(FormatTest, WritesEachTypeInItsOwnWay) {
  EXPECT_EQ(Formatted<float>(1, {1.5F, -0.1F}), "float32 (2)\n1.5 -0.100000001");
  EXPECT_EQ(Formatted<std::uint8_t>(2, {0, 255}), "uint8 (2)\n0 255");
  EXPECT_EQ(Formatted<std::int8_t>(3, {-128, 127}), "int8 (2)\n-128 127");
  EXPECT_EQ(Formatted<std::uint16_t>(4, {65535}), "uint16 (1)\n65535");
  EXPECT_EQ(Formatted<std::int16_t>(5, {-32768}), "int16 (1)\n-32768");
  EXPECT_EQ(Formatted<std::int32_t>(6, {-2147483647}), "int32 (1)\n-2147483647");
  EXPECT_EQ(Formatted<std::int64_t>(7, {std::numeric_limits<std::int64_t>::min()}),
            "int64 (1)\n-9223372036854775808");
  EXPECT_EQ(Formatted<std::uint8_t>(9, {0, 1}), "bool (2)\nFalse True");
  EXPECT_EQ(Formatted<double>(11, {0.1}), "float64 (1)\n0.10000000000000001");
  EXPECT_EQ(Formatted<std::uint32_t>(12, {4294967295U}), "uint32 (1)\n4294967295");
  EXPECT_EQ(Formatted<std::uint64_t>(13, {std::numeric_limits<std::uint64_t>::max()}),
            "uint64 (1)\n18446744073709551615");
}

TEST(FormatTest, WritesHalfPrecision) {
  EXPECT_EQ(Formatted<std::uint16_t>(10, {0x3c00, 0xbe00, 0x7bff, 0x0000}),
            "float16 (4)\n1 -1.5 65504 0");
  EXPECT_EQ(Formatted<std::uint16_t>(10, {0x0001, 0x0400}),
            "float16 (2)\n5.96046448e-08 6.10351562e-05");
  EXPECT_EQ(Formatted<std::uint16_t>(10, {0x7c00, 0xfc00, 0x7e00}), "float16 (3)\ninf -inf nan");
}

TEST(FormatTest, WritesTypesThatCppLacks) {
  EXPECT_EQ(Formatted<std::uint16_t>(16, {0x3f80, 0xc020}), "bfloat16 (2)\n1 -2.5");
  EXPECT_EQ(Formatted<std::uint8_t>(17, {0x38, 0x7f}), "float8_e4m3fn (2)\n1 nan");
  EXPECT_EQ(Formatted<std::uint8_t>(21, {0, 15}), "uint4 (2)\n0 15");
  EXPECT_EQ(Formatted<std::uint8_t>(22, {7, 8, 15}), "int4 (3)\n7 -8 -1");
  Array texts{8, {2}, ""};
  texts.strings = {"a b", "\n"};
  EXPECT_EQ(Format(texts), "string (2)\n\"a b\" \"\\n\"");
}

TEST(FormatTest, WritesTheShapeAndTheFirstElements) {
  EXPECT_EQ(Format({2, {}, "\x07"}), "uint8 ()\n7");
  EXPECT_EQ(Format({2, {1, 2}, "\x01\x02"}), "uint8 (1, 2)\n1 2");
  EXPECT_EQ(Format({1, {0, 3}, ""}), "float32 (0, 3)\n");
  const std::string whole = Format({2, {64}, std::string(64, '\x05')});
  const std::string cut = Format({2, {65}, std::string(65, '\x05')});
  EXPECT_TRUE(whole.ends_with("5 5"));
  EXPECT_TRUE(cut.ends_with("5 5 ..."));
  EXPECT_EQ(cut.size(), whole.size() + 4);
}

}  // namespace
}  // namespace opgraft::run
