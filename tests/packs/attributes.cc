// Operators with attributes of every kind, and with inputs that are known when the kernel is made.
#include <opgraft/op.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

template <class A>
std::string Text(const A& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
template <class A>
std::string Text(const std::vector<A>& values) {
  std::string text;
  for (const A& value : values) text += (text.empty() ? "" : ",") + Text(value);
  return "[" + text + "]";
}
template <>
std::string Text(const opgraft::TensorValue& value) {
  std::string text = "type " + std::to_string(value.element_type()) + " shape " +
                     Text(std::vector<std::int64_t>(value.shape().begin(), value.shape().end()));
  const auto add = [&](auto view) {
    for (const auto& element : view) text += " " + Text(element);
  };
  const opgraft::AnyTensor any = value.View();
  if (any.Is<float>()) add(any.As<float>());
  if (any.Is<std::int64_t>()) add(any.As<std::int64_t>());
  if (any.Is<opgraft::Float16>()) add(any.As<opgraft::Float16>());
  if (any.Is<std::string>()) add(any.As<std::string>());
  return text;
}
template <class A>
std::string Text(const std::optional<A>& value) {
  return value ? Text(*value) : "none";
}

/// Writes the values of all attributes, whatever they are.
struct Write {
  template <class... As>
  void operator()(opgraft::Tensor<std::string> y, const As&... attributes) const {
    ((y[0] += Text(attributes) + ";"), ...);
  }
};

}  // namespace

OPGRAFT_OP("test.pack::Defaults")
    .Output<std::string>("y")
    .Attribute<float>("f", 1.5F, "a number")
    .Attribute<std::int64_t>("i", 7)
    .Attribute<std::string>("s", "text")
    .Attribute<std::vector<float>>("fs", {0.5F, -1})
    .Attribute<std::vector<std::int64_t>>("is", {1, 2, 3})
    .Attribute<opgraft::TensorValue>("t", {{2, 1}, std::vector<float>{8, 9}})
    .Shape(opgraft::Sizes({}))
    .Cpu(Write());

OPGRAFT_OP("test.pack::Required")
    .Output<std::string>("y")
    .RequiredAttribute<float>("f", "a number")
    .Attribute<std::int64_t>("i")
    .Attribute<std::string>("s")
    .Attribute<std::vector<float>>("fs")
    .Attribute<std::vector<std::int64_t>>("is")
    .Attribute<opgraft::TensorValue>("t")
    .Shape(opgraft::Sizes({}))
    .Cpu(Write());

OPGRAFT_OP("test.pack::Optional")
    .Output<std::string>("y")
    .OptionalAttribute<float>("f", "a number")
    .OptionalAttribute<std::int64_t>("i")
    .OptionalAttribute<std::string>("s")
    .OptionalAttribute<std::vector<float>>("fs")
    .OptionalAttribute<std::vector<std::int64_t>>("is")
    .OptionalAttribute<opgraft::TensorValue>("t")
    .Shape(opgraft::Sizes({}))
    .Cpu(Write());

OPGRAFT_OP("test.pack::Texts")
    .Output<std::string>("y")
    .Attribute<std::vector<std::string>>("ss", {"a", "b"})
    .OptionalAttribute<std::vector<std::string>>("more")
    .Shape(opgraft::Sizes({}))
    .Cpu(Write());

namespace {

/// What it asks for when it is made, and keeps.
class Asking {
 public:
  explicit Asking(const opgraft::KernelInfo& info) {
    text_ = info.node_name() + ";" + Text(info.Attribute<std::string>("ask")) + ";" +
            std::to_string(info.input_count()) + ";" + std::to_string(info.output_count()) + ";" +
            std::to_string(info.input_type(0)) + ";" + std::to_string(info.input_type(1)) + ";" +
            (info.FindAttribute<float>("ratio") != nullptr ? "ratio" : "none");
    const std::string& ask = info.Attribute<std::string>("ask");
    if (ask == "undeclared") static_cast<void>(info.Attribute<float>("nobody"));
    if (ask == "kind") static_cast<void>(info.Attribute<std::int64_t>("ask"));
    if (ask == "none") static_cast<void>(info.Attribute<float>("ratio"));
  }
  void Compute(opgraft::Tensor<const float>, std::optional<opgraft::Tensor<const float>>,
               opgraft::Tensor<std::string> y) const {
    y[0] = text_;
  }

 private:
  std::string text_;
};

/// A table that is sorted once if it is known, and in each run if it is not.
template <class E>
class Rank {
 public:
  explicit Rank(const opgraft::KernelInfo& info) {
    if (auto table = info.Constant<E>(1)) {
      table_ = std::move(*table);
      std::ranges::sort(table_);
      is_constant_ = true;
    }
  }
  void Compute(opgraft::Tensor<const E> x, opgraft::Tensor<const E> table,
               opgraft::Tensor<std::int64_t> rank, opgraft::Tensor<bool> is_constant) const {
    std::vector<E> sorted = table_;
    if (!is_constant_) {
      sorted.assign(table.begin(), table.end());
      std::ranges::sort(sorted);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      rank[i] = std::ranges::lower_bound(sorted, x[i]) - sorted.begin();
    }
    is_constant[0] = is_constant_;
  }

 private:
  std::vector<E> table_;
  bool is_constant_ = false;
};

OPGRAFT_TYPES(Sorted, float, std::string);

}  // namespace

OPGRAFT_OP("test.pack::Asking")
    .Input<float>("x")
    .OptionalInput<float>("more")
    .Output<std::string>("y")
    .Attribute<std::string>("ask", "nothing")
    .OptionalAttribute<float>("ratio")
    .Shape(opgraft::Sizes({}))
    .Cpu<Asking>();

OPGRAFT_OP("test.pack::Rank")
    .Input<Sorted>("x")
    .Input<Sorted>("table")
    .Output<std::int64_t>("rank")
    .Output<bool>("is_constant")
    .Shape(opgraft::SameAs("x"), opgraft::Sizes({}))
    .Cpu<Rank>();

namespace {

class WrongConstant {
 public:
  explicit WrongConstant(const opgraft::KernelInfo& info) {
    static_cast<void>(info.Constant<double>(0));
  }
  void Compute(opgraft::Tensor<const float>, opgraft::Tensor<float>) const {}
};

}  // namespace

OPGRAFT_OP("test.pack::WrongConstant")
    .Input<float>("x")
    .Output<float>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu<WrongConstant>();
