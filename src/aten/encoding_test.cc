// Tests of reading the texts of an ATen node, malformed ones included.
#include "aten/encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace opgraft::aten {
namespace {

std::vector<WrittenArgument> Read(std::string_view text) {
  std::vector<WrittenArgument> arguments;
  const Status status = ReadArguments(text, "node", &arguments);
  EXPECT_TRUE(status.ok()) << status.message();
  return arguments;
}

Written One(std::string_view text) {
  Written written;
  const Status status = ReadWritten(text, "node", &written);
  EXPECT_TRUE(status.ok()) << status.message();
  return written;
}

TEST(EncodingTest, Arguments) {
  EXPECT_TRUE(Read("()").empty());
  const auto arguments = Read("( %0 ,true, [1, int(%12), null],name = \"x\" )");
  ASSERT_EQ(arguments.size(), 4U);
  EXPECT_EQ(arguments[0].value.form, Form::kTensor);
  EXPECT_EQ(arguments[1].value.form, Form::kBool);
  EXPECT_EQ(arguments[1].value.integer, 1);
  ASSERT_EQ(arguments[2].value.items.size(), 3U);
  EXPECT_EQ(arguments[2].value.items[1].form, Form::kNumberOf);
  EXPECT_EQ(arguments[2].value.items[1].integer, 12);
  EXPECT_EQ(arguments[2].value.items[2].form, Form::kNull);
  EXPECT_EQ(arguments[3].name, "name");
  EXPECT_EQ(arguments[3].value.text, "x");
}

TEST(EncodingTest, Numbers) {
  EXPECT_EQ(One("-9223372036854775808").integer, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(One("12").form, Form::kInt);
  EXPECT_EQ(One("0.1").real, 0.1);
  EXPECT_EQ(One("1e-05").real, 1e-05);
  EXPECT_EQ(One("1.").form, Form::kFloat);
  EXPECT_EQ(One("5e-324").real, 5e-324);
  EXPECT_TRUE(std::signbit(One("-0.0").real));
  EXPECT_EQ(One("-inf").real, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(One("nan").real));
  const Written number = One("complex(1.5, -2)");
  EXPECT_EQ(number.form, Form::kComplex);
  EXPECT_EQ(number.real, 1.5);
  EXPECT_EQ(number.imaginary, -2);
}

TEST(EncodingTest, Texts) {
  EXPECT_EQ(One(R"("a\"b\\\n\u00e9\ud83d\ude00é")").text, "a\"b\\\né😀é");
  EXPECT_EQ(One("device(\"cuda:0\")").form, Form::kDevice);
  EXPECT_EQ(One("torch.channels_last").text, "channels_last");
}

TEST(EncodingTest, Inputs) {
  EXPECT_EQ(One("complex(%1)").form, Form::kComplexTensor);
  EXPECT_EQ(One("ints(%1)").form, Form::kNumbersOf);
  EXPECT_EQ(One("float( %3 )").integer, 3);
}

TEST(EncodingTest, MalformedTexts) {
  for (const char* text : {"",
                           "(",
                           "(%0",
                           "(%0,)",
                           "(%)",
                           "(%-1)",
                           "(%9999999)",
                           "%0",
                           "(%0))",
                           "(1 2)",
                           "([[1]])",
                           "(\"a)",
                           "(\"\\x\")",
                           "(\"\\u12\")",
                           "(\"\\ud800\\u0041\")",
                           "(-)",
                           "(-infi)",
                           "(1e999999)",
                           "(99999999999999999999)",
                           "(torch.)",
                           "(torch)",
                           "(device(1))",
                           "(complex(1))",
                           "(complex(1,))",
                           "(int(1))",
                           "(ints(%0)",
                           "(a==1)",
                           "(=1)",
                           "(a=)",
                           "(None)",
                           "(True)",
                           "(+1)",
                           "(.5)",
                           "(complex(%0, 1))"}) {
    std::vector<WrittenArgument> arguments;
    const Status status = ReadArguments(text, "the node", &arguments);
    EXPECT_EQ(status.kind(), ErrorKind::kModel) << text;
    EXPECT_TRUE(status.message().starts_with(
        "the node: its attribute 'arguments' is malformed at offset "));
  }
  for (const char* text : {",", "float32", "float32[", "float32[1", "float32[1,]", "float32[-1]",
                           "float32[..]", "[float32[1]", "[[float32[]]]", "complex256[]", "int[",
                           "float32[] float32[]", "float32[99999999999999999999]", "tensor[]"}) {
    std::vector<WrittenResult> results;
    EXPECT_EQ(ReadResults(text, "node", &results).kind(), ErrorKind::kModel) << text;
  }
}

TEST(EncodingTest, Results) {
  std::vector<WrittenResult> results;
  const Status status = ReadResults(
      "float32[n,3], complex64[\"2*n\",?], [int64[...], bool[]], int, bool, null, float", "node",
      &results);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(results.size(), 7U);
  const std::vector<NodeOutput> outputs = OutputsOf(results);
  ASSERT_EQ(outputs.size(), 7U);  // the list becomes two outputs, null becomes none
  EXPECT_EQ((*outputs[0].shape)[0].symbol, "n");
  EXPECT_EQ((*outputs[0].shape)[1].size, 3);
  EXPECT_EQ(outputs[1].element_type, 1);
  ASSERT_EQ(outputs[1].shape->size(), 3U);
  EXPECT_EQ((*outputs[1].shape)[2].size, 2);
  EXPECT_FALSE(outputs[2].shape.has_value());
  EXPECT_TRUE(outputs[3].shape->empty());
  const std::vector<int> types = {1, 1, 7, 9, 7, 9, 11};
  for (std::size_t i = 0; i < types.size(); ++i) EXPECT_EQ(outputs[i].element_type, types[i]);
}

TEST(EncodingTest, AnyBytesAreReadOrRefused) {
  const std::string good[] = {
      R"((%0, [1, int(%1)], -0.5e3, "a\u00e9", torch.int64, device("cpu"), k=complex(1.0, inf)))",
      R"(float32[n,3], complex64["2*n",?], [int64[...], bool[]], int, null)"};
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    std::string text = good[i % 2];
    for (unsigned j = 0; j <= random() % 3; ++j) {
      const std::size_t place = random() % text.size();
      switch (random() % 4) {
        case 0: text[place] = static_cast<char>(random()); break;
        case 1: text.erase(place, random() % 4); break;
        case 2: text.insert(place, text.substr(random() % text.size(), random() % 8)); break;
        default: text.resize(place); break;
      }
      if (text.empty()) text = "(";
    }
    std::vector<WrittenArgument> arguments;
    std::vector<WrittenResult> results;
    (void)ReadArguments(text, "node", &arguments);
    if (ReadResults(text, "node", &results).ok()) (void)OutputsOf(results);
  }
}

}  // namespace
}  // namespace opgraft::aten
