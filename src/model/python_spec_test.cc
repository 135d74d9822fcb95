#include "model/python_spec.h"

#include <gtest/gtest.h>

#include <limits>

namespace opgraft::pyop {
namespace {

/// Returns a spec for a node with two inputs and one output.
Spec GoodSpec() {
  Spec spec;
  spec.node = "n";
  spec.module = "package.module";
  spec.class_name = "Class";
  spec.input_types = {1, 7};
  spec.output_types = {1};
  return spec;
}

/// Expects a ModelError that names the node, the operator and `culprit`.
void ExpectRefused(const Spec& spec, const std::string& culprit, std::size_t inputs = 2,
                   std::size_t outputs = 1) {
  const Status status = Check(spec, inputs, outputs);
  EXPECT_EQ(status.kind(), ErrorKind::kModel) << culprit;
  EXPECT_TRUE(status.message().starts_with(spec.Who())) << status.message();
  EXPECT_NE(status.message().find(culprit), std::string::npos) << status.message();
}

void ExpectAccepted(const Spec& spec, std::size_t inputs = 2, std::size_t outputs = 1) {
  const Status status = Check(spec, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SpecTest, SaysWhoItIs) {
  EXPECT_EQ(GoodSpec().Who(), "node 'n', operator package.module.Class");
}

TEST(SpecTest, AbsentInputsHavePlacesToo) {
  Spec spec = GoodSpec();
  EXPECT_EQ(spec.Places(2), 2U);
  spec.input_places = {0, kUnknown, 1};
  EXPECT_EQ(spec.Places(2), 3U);
}

TEST(CheckTest, AcceptsWhatIsWhole) {
  ExpectAccepted(GoodSpec());
  Spec spec = GoodSpec();
  spec.class_name = "Outer.Inner";
  spec.compute = "_run2";
  spec.output_shapes = {std::nullopt};
  ExpectAccepted(spec);
  spec.input_types.clear();  // any types
  ExpectAccepted(spec, 17);
  spec.output_types.clear();
  spec.output_shapes.clear();
  ExpectAccepted(spec, 0, 0);
}

TEST(CheckTest, TheModuleIsAnAbsoluteName) {
  Spec spec = GoodSpec();
  spec.module = "";
  ExpectRefused(spec, "attribute 'module' is missing");
  for (const char* module : {".module", "package.", "a..b", "a b", "a-b", "os;x", "1a"}) {
    spec.module = module;
    ExpectRefused(spec, "attribute 'module' is '" + spec.module + "'");
  }
}

TEST(CheckTest, TheClassNameIsPlain) {
  Spec spec = GoodSpec();
  spec.class_name = "";
  ExpectRefused(spec, "attribute 'class_name' is missing");
  for (const char* name : {"__class__", "Outer.__init__", "A..B", "A()", "A B", "9A"}) {
    spec.class_name = name;
    ExpectRefused(spec, "attribute 'class_name' is '" + spec.class_name + "'");
  }
}

TEST(CheckTest, TheMethodIsOnePlainName) {
  Spec spec = GoodSpec();
  for (const char* name : {"", "__call__", "a.b", "compute()", "a b"}) {
    spec.compute = name;
    ExpectRefused(spec, "attribute 'compute' is '" + spec.compute + "'");
  }
}

TEST(CheckTest, ThereIsOneInputTypeForEachPlace) {
  Spec spec = GoodSpec();
  ExpectRefused(spec, "'input_types' names 2 types, expected 3, one for each of the node's inputs",
                3);
  ExpectRefused(spec, "'input_types' names 2 types, expected 1", 1);
  spec.input_places = {0, kUnknown, 1};
  ExpectRefused(spec, "'input_types' names 2 types, expected 3");
  spec.input_types = {1, 1, 1};
  ExpectAccepted(spec);
}

TEST(CheckTest, ThereIsOneOutputTypeForEachOutput) {
  Spec spec = GoodSpec();
  ExpectRefused(
      spec, "'output_types' names 1 types, expected 2, one for each of the node's outputs", 2, 2);
  ExpectRefused(spec, "'output_types' names 1 types, expected 0", 2, 0);
  spec.output_types.clear();
  ExpectRefused(spec, "'output_types' is missing; expected 1 types");
}

TEST(CheckTest, ANumberThatIsNoTypeIsRefused) {
  for (const std::int64_t type : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{77},
                                  std::numeric_limits<std::int64_t>::max()}) {
    Spec spec = GoodSpec();
    spec.input_types[1] = type;
    ExpectRefused(spec, "'input_types' holds " + std::to_string(type));
    spec = GoodSpec();
    spec.output_types[0] = type;
    ExpectRefused(spec, "'output_types' holds " + std::to_string(type));
  }
}

TEST(CheckTest, ATypeThatIsNotCarriedIsNamed) {
  Spec spec = GoodSpec();
  spec.output_types = {14};
  ExpectRefused(spec, "'output_types' asks for complex64");
  spec = GoodSpec();
  spec.input_types = {1, 24};
  ExpectRefused(spec, "'input_types' asks for float8_e8m0fnu");
  spec.input_types = {8, 16};
  ExpectAccepted(spec);
}

TEST(CheckTest, ThePlacesNameEachInputOnceInOrder) {
  Spec spec = GoodSpec();
  spec.input_types.clear();
  const std::vector<std::int64_t> wrong[] = {{0},
                                             {1, 0},
                                             {0, 0},
                                             {0, 2},
                                             {0, 1, 2},
                                             {-2, 0, 1},
                                             {0, 1, -2},
                                             {-1},
                                             {0, std::numeric_limits<std::int64_t>::max()},
                                             {std::numeric_limits<std::int64_t>::min()}};
  for (const std::vector<std::int64_t>& places : wrong) {
    spec.input_places = places;
    ExpectRefused(spec, "'input_places' does not name each of the 2 inputs once");
  }
  const std::vector<std::int64_t> right[] = {{0, 1}, {-1, 0, 1}, {0, -1, -1, 1}, {0, 1, -1}};
  for (const std::vector<std::int64_t>& places : right) {
    spec.input_places = places;
    ExpectAccepted(spec);
  }
  spec.input_places = {-1, -1};
  ExpectAccepted(spec, 0);
}

TEST(CheckTest, ThereIsOneOutputShapeForEachOutput) {
  Spec spec = GoodSpec();
  spec.output_shapes = {std::nullopt, std::nullopt};
  ExpectRefused(spec, "'output_shapes' holds 2 shapes, expected 1");
}

TEST(PackTest, WritesTheRankAndTheDimensions) {
  EXPECT_EQ(Pack({}), std::vector<std::int64_t>());
  EXPECT_EQ(
      Pack({std::vector<std::int64_t>{2, kUnknown}, std::nullopt, std::vector<std::int64_t>{}}),
      (std::vector<std::int64_t>{2, 2, -1, -1, 0}));
}

TEST(PackTest, UnpackGivesBackWhatWasPacked) {
  const std::vector<std::vector<DeclaredShape>> lists = {
      {},
      {std::nullopt},
      {std::vector<std::int64_t>{}},
      {std::vector<std::int64_t>{0}, std::vector<std::int64_t>{3, kUnknown, 5}, std::nullopt},
  };
  for (const std::vector<DeclaredShape>& shapes : lists) {
    std::vector<DeclaredShape> unpacked = {std::nullopt, std::nullopt};
    EXPECT_TRUE(Unpack(Pack(shapes), &unpacked));
    EXPECT_EQ(unpacked, shapes);
  }
}

TEST(PackTest, UnpackRefusesAListThatIsNoneOfShapes) {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> hostile[] = {
      {-2},      {5},       {1},
      {2, 3},    {largest}, {std::numeric_limits<std::int64_t>::min()},
      {1, 4, 1}, {-1, -2},  {0, largest, 0}};
  for (const std::vector<std::int64_t>& packed : hostile) {
    std::vector<DeclaredShape> shapes;
    EXPECT_FALSE(Unpack(packed, &shapes)) << packed[0];
  }
}

}  // namespace
}  // namespace opgraft::pyop
