// Tests of sizes that need not be known, and of each rule with known, named and open sizes.
#include "opgraft/shape.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opgraft {
namespace {

constexpr std::int64_t kMost = INT64_MAX;

std::string Text(const Dim& dim) {
  if (dim.IsKnown()) return std::to_string(dim.size());
  return dim.symbol().empty() ? "?" : std::string(dim.symbol());
}

std::string Text(const std::optional<Shape>& shape) {
  if (!shape) return "open";
  std::string text;
  for (const Dim& dim : *shape) text += (text.empty() ? "" : ",") + Text(dim);
  return "[" + text + "]";
}

/// Inputs a, b and c, and an attribute `sizes` or `k`.
class Given final : public ShapeContext {
 public:
  std::vector<std::optional<Shape>> shapes;
  std::map<std::string, AttributeValue, std::less<>> attributes;
  std::map<std::size_t, std::vector<std::int64_t>> values;

  std::size_t input_count() const override { return shapes.size(); }
  std::optional<std::size_t> output_count() const override { return std::nullopt; }
  bool HasInput(std::size_t index) const override { return index < shapes.size(); }
  std::optional<Shape> Input(std::size_t index) const override {
    return index < shapes.size() ? shapes[index] : std::nullopt;
  }
  AttributeValue AnyAttribute(std::string_view name) const override {
    const auto found = attributes.find(name);
    return found != attributes.end() ? found->second : AttributeValue();
  }
  std::optional<std::vector<std::int64_t>> Integers(std::size_t index) const override {
    const auto found = values.find(index);
    if (found == values.end()) return std::nullopt;
    return found->second;
  }
  std::size_t IndexOf(std::string_view name) const override {
    return static_cast<std::size_t>(name[0] - 'a');
  }
  void SetOutput(std::size_t, Shape) override {}
};

Given Inputs(std::vector<std::optional<Shape>> shapes) {
  Given given;
  given.shapes = std::move(shapes);
  return given;
}

const Dim n = Dim::Symbol("n");
const Dim m = Dim::Symbol("m");
const Dim open;

TEST(Dim, KnownSizes) {
  EXPECT_EQ(Text(Dim(2) + Dim(3)), "5");
  EXPECT_EQ(Text(Dim(3) - Dim(2)), "1");
  EXPECT_EQ(Text(Dim(3) * Dim(2)), "6");
  EXPECT_EQ(Text(Dim(7) / Dim(2)), "3");
  EXPECT_EQ(Text(Dim(0) / Dim(2)), "0");
  EXPECT_EQ(Text(Dim(0) * Dim(5)), "0");
}

TEST(Dim, NamedSizes) {
  EXPECT_EQ(Text(n + Dim(3)), "n + 3");
  EXPECT_EQ(Text(n - m), "-m + n");
  EXPECT_EQ(Text(n - n), "0");
  EXPECT_EQ(Text(Dim(2) * n / Dim(4)), "(2*n)//4");
  EXPECT_EQ(Text(n / Dim(3) * Dim(2)), "2*(n//3)");
  EXPECT_EQ(Text(n + Dim(0)), "n");
  EXPECT_EQ(Text(Dim(0) + n), "n");
  EXPECT_EQ(Text(n - Dim(0)), "n");
  EXPECT_EQ(Text(n * Dim(1)), "n");
  EXPECT_EQ(Text(Dim(1) * n), "n");
  EXPECT_EQ(Text(n * Dim(0)), "0");
  EXPECT_EQ(Text(Dim(0) * n), "0");
  EXPECT_EQ(Text(n / Dim(1)), "n");
  EXPECT_EQ(Text(Dim::Symbol("")), "?");
  // Equal sizes have one text, however they were computed.
  EXPECT_EQ(Text(n * Dim(2)), "2*n");
  EXPECT_EQ(Text(n + n), "2*n");
  EXPECT_EQ(Text((n + Dim(1)) * Dim(2) - m), "-m + 2*n + 2");
  EXPECT_EQ(Text(Dim(4) * n / Dim(2)), "2*n");
  EXPECT_EQ(Text(n * Dim(2) - n), "n");
  EXPECT_EQ(Text(n + Dim(1) - n), "1");
}

TEST(Dim, OpenSizes) {
  EXPECT_EQ(Text(open + Dim(1)), "?");
  EXPECT_EQ(Text(n + open), "?");
  EXPECT_EQ(Text(open * Dim(0)), "0");
  EXPECT_EQ(Text(open - open), "?");
}

TEST(Dim, Impossible) {
  EXPECT_THROW(static_cast<void>(Dim(-1)), ShapeError);
  EXPECT_THROW(static_cast<void>(Dim(2) - Dim(3)), ShapeError);
  EXPECT_THROW(static_cast<void>(Dim(2) / Dim(0)), ShapeError);
  EXPECT_THROW(static_cast<void>(n / Dim(0)), ShapeError);
  EXPECT_THROW(static_cast<void>(Dim(kMost) + Dim(1)), ShapeError);
  EXPECT_THROW(static_cast<void>(Dim(kMost) * Dim(2)), ShapeError);
}

TEST(Dim, SymbolsDoNotGrowWithoutLimit) {
  Dim dim = n;
  for (int i = 0; i < 100; ++i) {
    dim = dim + dim;
    ASSERT_LE(dim.symbol().size(), 110U);
  }
  dim = n;
  for (int i = 0; i < 60; ++i) {
    dim = dim / Dim(3);
    ASSERT_LE(dim.symbol().size(), 110U);
  }
  EXPECT_EQ(Text(dim), "?");
  dim = n;
  for (int i = 0; i < 16; ++i) {
    dim = dim / (dim / Dim(3));
    ASSERT_LE(dim.symbol().size(), 110U);
  }
  const std::string name(200, 'n');  // a symbol of the model itself may be long
  EXPECT_EQ(Text(Dim::Symbol(name) + Dim(0)), name);
  EXPECT_EQ(Text(Dim::Symbol(name) / Dim(2)), "?");
}

TEST(Dim, Equality) {
  EXPECT_EQ(Equal(Dim(2), Dim(2)), true);
  EXPECT_EQ(Equal(Dim(2), Dim(3)), false);
  EXPECT_EQ(Equal(n, n), true);
  EXPECT_EQ(Equal(n, m), std::nullopt);
  EXPECT_EQ(Equal(n, 2), std::nullopt);
  EXPECT_EQ(Equal(n + n, Dim(2) * n), true);
  EXPECT_EQ(Equal(Dim::Symbol("2*n"), Dim(2) * n), std::nullopt);  // a name may be any text
  EXPECT_EQ(Equal(Dim::Symbol("n//2"), n / Dim(2)), std::nullopt);
  EXPECT_EQ(Equal(n / Dim(2), n / Dim(2)), true);
  EXPECT_TRUE((n / Dim(2)).IsComputed());
  EXPECT_EQ(Equal(open, open), std::nullopt);
}

TEST(Axis, CountsFromBothEnds) {
  EXPECT_EQ(AxisOf(0, 2), 0U);
  EXPECT_EQ(AxisOf(-1, 2), 1U);
  EXPECT_THROW(AxisOf(2, 2), ShapeError);
  EXPECT_THROW(AxisOf(-3, 2), ShapeError);
  EXPECT_THROW(AxisOf(0, 0), ShapeError);
}

TEST(Rule, SameAs) {
  EXPECT_EQ(Text(SameAs("a")(Inputs({Shape{n, 2}}))), "[n,2]");
  EXPECT_EQ(Text(SameAs("a")(Inputs({std::nullopt}))), "open");
  EXPECT_EQ(SameAs("a").same_as(), "a");
  EXPECT_EQ(SameAs("a").Without(0).same_as(), "");
}

TEST(Rule, Broadcast) {
  const auto both = [](Shape a, Shape b) {
    return Text(Broadcast()(Inputs({std::move(a), std::move(b)})));
  };
  EXPECT_EQ(both({2, 1}, {3}), "[2,3]");
  EXPECT_EQ(both({n, 1}, {1, m}), "[n,m]");
  EXPECT_EQ(both({n}, {n}), "[n]");
  EXPECT_EQ(both({n}, {5}), "[5]");
  EXPECT_EQ(both({n}, {m}), "[?]");
  EXPECT_EQ(both({}, {n}), "[n]");
  EXPECT_EQ(both({0}, {1}), "[0]");
  EXPECT_EQ(both({open}, {1}), "[?]");
  EXPECT_THROW(both({2}, {3}), ShapeError);
  EXPECT_THROW(both({0}, {3}), ShapeError);
  EXPECT_EQ(Text(Broadcast()(Inputs({Shape{2}, std::nullopt}))), "open");
  EXPECT_EQ(Text(Broadcast({"a", "c"})(Inputs({Shape{1}, Shape{9}, Shape{4}}))), "[4]");
  EXPECT_EQ(Text(Broadcast({"a", "c"})(Inputs({Shape{1}}))), "[1]");
}

TEST(Rule, MatrixProduct) {
  const auto product = [](Shape a, Shape b) {
    return Text(MatrixProduct("a", "b")(Inputs({std::move(a), std::move(b)})));
  };
  EXPECT_EQ(product({n, 3}, {3, m}), "[n,m]");
  EXPECT_EQ(product({3}, {3, m}), "[m]");
  EXPECT_EQ(product({n, 3}, {3}), "[n]");
  EXPECT_EQ(product({3}, {3}), "[]");
  EXPECT_EQ(product({n}, {5}), "[]");
  EXPECT_EQ(product({2, 1, n, 3}, {7, 3, m}), "[2,7,n,m]");
  EXPECT_EQ(product({n, open}, {3, m}), "[n,m]");
  EXPECT_THROW(product({2, 3}, {4, 5}), ShapeError);
  EXPECT_THROW(product({}, {4, 5}), ShapeError);
  EXPECT_THROW(product({2, 2, 3}, {3, 3, 5}), ShapeError);
}

TEST(Rule, FromAttribute) {
  Given given;
  EXPECT_EQ(Text(FromAttribute("sizes")(given)), "open");
  given.attributes["sizes"] = std::vector<std::int64_t>{2, 0};
  EXPECT_EQ(Text(FromAttribute("sizes")(given)), "[2,0]");
  given.attributes["sizes"] = std::vector<std::int64_t>{-2};
  EXPECT_THROW(FromAttribute("sizes")(given), ShapeError);
}

TEST(Rule, FromConstant) {
  Given given = Inputs({Shape{2}});
  EXPECT_EQ(Text(FromConstant("a")(given)), "[?,?]");
  given.values[0] = {4, 5};
  EXPECT_EQ(Text(FromConstant("a")(given)), "[4,5]");
  EXPECT_EQ(Text(FromConstant("a")(Inputs({Shape{n}}))), "open");
  EXPECT_EQ(Text(FromConstant("a")(Inputs({Shape{kMost}}))), "open");
  EXPECT_EQ(Text(FromConstant("a")(Inputs({Shape{2, 2}}))), "open");
}

TEST(Rule, Combinations) {
  Given given = Inputs({Shape{n, 2, 3}, Shape{m}});
  given.attributes["k"] = std::int64_t{7};
  const ShapeRule a = SameAs("a");
  EXPECT_EQ(Text(a.Without(-1)(given)), "[n,2]");
  EXPECT_EQ(Text(a.Without(0)(given)), "[2,3]");
  EXPECT_EQ(Text(a.With(1, SizeFrom("k"))(given)), "[n,7,3]");
  EXPECT_EQ(Text(a.With(-1, SizeOf("b", 0) * 2 + 1)(given)), "[n,2,2*m + 1]");
  EXPECT_EQ(Text(a.WithoutLast(2)(given)), "[n]");
  EXPECT_EQ(Text(a.WithoutLast(3)(given)), "[]");
  EXPECT_EQ(Text(a.Last(1)(given)), "[3]");
  EXPECT_EQ(Text(a.Last(0)(given)), "[]");
  EXPECT_EQ(Text(a.Then(SameAs("b"))(given)), "[n,2,3,m]");
  EXPECT_EQ(Text(a.Then(SameAs("c"))(given)), "open");
  EXPECT_EQ(Text(Sizes({})(given)), "[]");
  EXPECT_EQ(Text(Sizes({SizeOf("c", 0), 4})(given)), "[?,4]");
  EXPECT_THROW(a.Without(3)(given), ShapeError);
  EXPECT_THROW(a.Last(4)(given), ShapeError);
  EXPECT_THROW(a.WithoutLast(4)(given), ShapeError);
  EXPECT_THROW(Sizes({SizeOf("a", 5)})(given), ShapeError);
  given.attributes["k"] = std::int64_t{-7};
  EXPECT_THROW(Sizes({SizeFrom("k")})(given), ShapeError);
}

TEST(Rule, ListsTheNamesThatItUses) {
  const ShapeNames names = SameAs("a").With(0, SizeOf("b", 0) + SizeFrom("k")).names();
  EXPECT_EQ(names.inputs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names.attributes, std::vector<std::string>{"k"});
  EXPECT_EQ(Broadcast({"a", "b"}).Then(FromAttribute("s")).names().attributes,
            std::vector<std::string>{"s"});
}

}  // namespace
}  // namespace opgraft
