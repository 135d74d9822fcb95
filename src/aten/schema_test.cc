// Tests of reading schemas, and of the list of operators.
#include "aten/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "aten/encoding.h"
#include "aten/operators.h"

namespace opgraft::aten {
namespace {

TEST(AtenSchemaTest, ReadsArgumentsAndResults) {
  Schema schema;
  ASSERT_TRUE(ReadSchema(
      "f.over(Tensor(a -> *) self, SymInt[2] size=[1, 1], Tensor?[] indices, int[1]? dim=null, *, "
      "str mode=\"a,b\", Scalar? x=null, ScalarType? dtype=torch.int64) -> (Tensor(a) values, "
      "Tensor[] rest)",
      &schema));
  EXPECT_EQ(schema.name, "f");
  EXPECT_EQ(schema.overload, "over");
  EXPECT_EQ(schema.FullName(), "aten::f.over");
  ASSERT_EQ(schema.parameters.size(), 7U);
  const std::vector<std::string> types = {"Tensor", "int[2]",  "Tensor?[]",  "int[1]?",
                                          "str",    "Scalar?", "ScalarType?"};
  const std::vector<std::string> defaults = {"",        "[1, 1]", "",           "null",
                                             "\"a,b\"", "null",   "torch.int64"};
  for (std::size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(schema.parameters[i].type.Text(), types[i]);
    EXPECT_EQ(schema.parameters[i].default_text, defaults[i]);
    EXPECT_EQ(schema.parameters[i].is_keyword, i >= 4);
  }
  ASSERT_EQ(schema.results.size(), 2U);
  EXPECT_EQ(schema.results[0].name, "values");
  EXPECT_EQ(schema.results[1].type.Text(), "Tensor[]");
}

TEST(AtenSchemaTest, RefusesMalformedSchemas) {
  Schema schema;
  for (const char* text : {"", "f", "f(", "f()", "f() -> ", "f() -> Stream", "f(Tensor) -> Tensor",
                           "f(Tensor x -> Tensor", "f(Tensor x=) -> Tensor", "f() -> Tensor ",
                           "(Tensor x) -> Tensor", "f(Tensor x, ) -> Tensor"}) {
    EXPECT_FALSE(ReadSchema(text, &schema)) << text;
  }
}

TEST(OperatorsTest, EveryLineIsASchemaThatCanBeCalled) {
  std::string_view left = AllOperators();
  std::set<std::string> seen;
  std::size_t listed = 0;
  while (!left.empty()) {
    const std::size_t end = left.find('\n');
    ASSERT_NE(end, left.npos);
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(end + 1);
    Schema schema;
    ASSERT_TRUE(ReadSchema(line.substr(1), &schema)) << line;
    EXPECT_TRUE(seen.insert(schema.FullName()).second) << line;
    EXPECT_LE(schema.parameters.size(), 32U);
    EXPECT_EQ(line.find('!', 1), line.npos) << line;  // it would write to an argument
    listed += line[0] != '!' ? 1 : 0;
    for (const Parameter& parameter : schema.parameters) {
      if (parameter.default_text.empty()) continue;
      Written written;
      EXPECT_TRUE(ReadWritten(parameter.default_text, "", &written).ok()) << line;
    }
    // libtorch converts each result by the type of the one at the opposite end.
    for (std::size_t i = 0; i < schema.results.size(); ++i) {
      const Type& type = schema.results[i].type;
      EXPECT_EQ(type.Text(), schema.results[schema.results.size() - 1 - i].type.Text()) << line;
      EXPECT_FALSE(type.is_optional) << line;
    }
  }
  EXPECT_GT(listed, 900U);
}

TEST(OperatorsTest, NothingDangerousIsListed) {
  for (const char* name : {"aten::from_file", "aten::set.source_Tensor", "aten::embedding_bag",
                           "aten::_fft_c2c", "aten::max_pool2d_with_indices_backward"}) {
    EXPECT_EQ(IsListed(name), std::optional(false)) << name;
  }
  for (const char* name : {"aten::_sparse_coo_tensor_unsafe", "aten::copy_", "aten::relu_",
                           "lgamma.out", "aten::_cudnn_rnn", "aten::quantize_per_tensor",
                           "prims::lgamma", "aten::no_such", "", "aten::", "."}) {
    EXPECT_EQ(IsListed(name), std::nullopt) << name;
  }
}

TEST(OperatorsTest, FindsTheOverloadsOfOneName) {
  std::set<std::string_view> overloads;
  for (const Operator& one : FindOperators("median")) overloads.insert(one.schema.overload);
  EXPECT_EQ(overloads, (std::set<std::string_view>{"", "dim"}));
  EXPECT_TRUE(IsListed("aten::median.dim").value_or(false));
  EXPECT_TRUE(FindOperators("empty")[0].is_uninitialized);
  EXPECT_FALSE(FindOperators("zeros")[0].is_uninitialized);
  EXPECT_EQ(WithoutNamespace("aten::median"), "median");
  EXPECT_EQ(WithoutNamespace("median"), "median");
  EXPECT_EQ(WithoutNamespace("prims::median"), "");
}

}  // namespace
}  // namespace opgraft::aten
