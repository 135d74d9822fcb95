// Operators whose inputs and outputs may be left out, or be of any number.
#include <opgraft/op.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

OPGRAFT_TYPES(T, float, double);

OPGRAFT_OP("test.pack::Clip")
    .Input<T>("x")
    .OptionalInput<T>("low", "none: no limit")
    .OptionalInput<T>("high", "none: no limit")
    .Output<T>("y")
    .Shape(opgraft::SameAs("x"))
    .Cpu([]<class E>(opgraft::Tensor<const E> x, std::optional<opgraft::Tensor<const E>> low,
                     std::optional<opgraft::Tensor<const E>> high, opgraft::Tensor<E> y) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = x[i];
        if (low) y[i] = std::max(y[i], (*low)[0]);
        if (high) y[i] = std::min(y[i], (*high)[0]);
      }
    });

OPGRAFT_OP("test.pack::Sum")
    .VariadicInput<T>("inputs", "of one shape", 2)
    .Output<T>("y")
    .Shape(opgraft::Broadcast())
    .Cpu([]<class E>(opgraft::Tensors<const E> inputs, opgraft::Tensor<E> y) {
      std::ranges::fill(y, E(0));
      for (const auto& x : inputs) {
        for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
      }
    });

OPGRAFT_OP("test.pack::Join")
    .Doc("Strings, one after the other, with a separator where there is one.")
    .OptionalInput<std::string>("separator")
    .VariadicInput<std::string>("parts", "", 0)
    .Output<std::string>("y")
    .OptionalOutput<std::string>("first", "the first of them")
    .Shape(opgraft::Sizes({}), opgraft::Sizes({}))
    .Cpu([](std::optional<opgraft::Tensor<const std::string>> separator,
            opgraft::Tensors<const std::string> parts, opgraft::Tensor<std::string> y,
            std::optional<opgraft::Tensor<std::string>> first) {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0 && separator) y[0] += (*separator)[0];
        y[0] += parts[i][0];
      }
      if (first && !parts.empty()) (*first)[0] = parts[0][0];
    });

OPGRAFT_OP("test.pack::Extremes")
    .Doc("The sum, and, where they are wanted, the least and the greatest element.")
    .Input<float>("x")
    .Output<float>("sum")
    .Output<std::int64_t>("wanted", "which of the others there were, as bits")
    .OptionalOutput<float>("least")
    .OptionalOutput<float>("greatest")
    .Shape(opgraft::Sizes({}), opgraft::Sizes({}), opgraft::Sizes({1}), opgraft::Sizes({1, 1}))
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> sum,
            opgraft::Tensor<std::int64_t> wanted, std::optional<opgraft::Tensor<float>> least,
            std::optional<opgraft::Tensor<float>> greatest) {
      sum[0] = std::accumulate(x.begin(), x.end(), 0.0F);
      if (least) (*least)[0] = *std::min_element(x.begin(), x.end());
      if (greatest) (*greatest)[0] = *std::max_element(x.begin(), x.end());
      wanted[0] = (least ? 1 : 0) + (greatest ? 2 : 0);
    });

OPGRAFT_OP("test.pack::Mirror")
    .Doc("As x, and its negative: outputs that must be declared, but need not be wanted.")
    .Input<float>("x")
    .Output<float>("same")
    .Output<float>("negative")
    .Shape(opgraft::SameAs("x"), opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> same,
            opgraft::Tensor<float> negative) {
      std::ranges::copy(x, same.begin());
      for (std::size_t i = 0; i < x.size(); ++i) negative[i] = -x[i];
    });

OPGRAFT_OP("test.pack::Repeat")
    .Doc("The input, as often as there are outputs.")
    .Input<T>("x")
    .VariadicOutput<T>("copies")
    .Shape(opgraft::SameAs("x"))
    .Cpu([]<class E>(opgraft::Tensor<const E> x, opgraft::Tensors<E> copies) {
      for (const auto& copy : copies) std::ranges::copy(x, copy.begin());
    });

OPGRAFT_OP("test.pack::Deal")
    .Doc("Element i goes to output i modulo their number: shapes that depend on it.")
    .Input<float>("x")
    .VariadicOutput<float>("hands")
    .Cpu([](opgraft::Tensor<const float> x, opgraft::Outputs<float> hands) {
      for (std::size_t hand = 0; hand < hands.size(); ++hand) {
        std::vector<float> cards;
        for (std::size_t i = hand; i < x.size(); i += hands.size()) cards.push_back(x[i]);
        std::ranges::copy(cards, hands[hand].Allocate({std::ssize(cards)}).begin());
      }
    });

OPGRAFT_OP("test.pack::Unique")
    .Doc("The values that there are, in order, and how often, if anybody asks.")
    .Input<T>("x")
    .Output<T>("values")
    .OptionalOutput<std::int64_t>("counts")
    .Cpu([]<class E>(opgraft::Tensor<const E> x, opgraft::Output<E> values,
                     opgraft::Output<std::int64_t> counts) {
      std::map<E, std::int64_t> found;
      for (const E value : x) ++found[value];
      const auto keys = values.Allocate({std::ssize(found)});
      std::ranges::transform(found, keys.begin(), [](const auto& pair) { return pair.first; });
      if (!counts.IsWanted()) return;
      const auto numbers = counts.Allocate({std::ssize(found)});
      std::ranges::transform(found, numbers.begin(), [](const auto& pair) { return pair.second; });
    });

OPGRAFT_OP("test.pack::Words")
    .Doc("The words of a text: strings of a number that depends on it.")
    .Input<std::string>("text")
    .Output<std::string>("words")
    .Cpu([](opgraft::Tensor<const std::string> text, opgraft::Output<std::string> words) {
      std::vector<std::string> found(1);
      for (const char letter : text[0]) {
        if (letter == ' ') {
          found.emplace_back();
        } else {
          found.back() += letter;
        }
      }
      if (text[0].empty()) found.clear();
      const auto strings = words.Allocate({std::ssize(found), 1});
      if (strings.rank() != 2 || strings.dimension(0) != std::ssize(found)) throw 1;
      std::ranges::copy(found, strings.begin());
    });

OPGRAFT_OP("test.pack::Nothing")
    .Doc("An operator without an input.")
    .Output<float>("y")
    .Attribute<float>("value", 3)
    .Shape(opgraft::Sizes({2}))
    .Cpu([](opgraft::Tensor<float> y, float value) { std::ranges::fill(y, value); });
