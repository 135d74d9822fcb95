// The arguments of a call in one run, by name, for the checks before the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aten/encoding.h"
#include "aten/tensors.h"

namespace opgraft::aten {

// ONNX's numbers of the element types that checks need.
inline constexpr int kInt64 = 7;
inline constexpr int kBool = 9;

/// A tensor as libtorch will see it: the shape of a complex tensor is without the dimension of
/// pairs.
struct TensorArgument : InputTensor {
  bool is_complex = false;

  std::size_t rank() const { return shape.size(); }
  /// Returns the size of a dimension, counted from the last, which is 1; 0 if there is none.
  std::int64_t SizeFromEnd(std::size_t from_end) const;
  /// "float32[2, 3]", for messages.
  std::string Text() const;
};

/// The arguments by their names in the schema. An input of another type than the argument is not
/// found here: the call itself refuses it before libtorch is called.
class NamedArguments {
 public:
  NamedArguments(std::span<const std::string> names, std::span<const Written> written,
                 std::span<const InputTensor> inputs, std::size_t parts = 0)
      : names_(names), written_(written), inputs_(inputs), parts_(parts) {}

  /// Whether the argument is there and not null.
  bool Has(std::string_view name) const;
  std::optional<TensorArgument> FindTensor(std::string_view name) const;
  /// Returns the tensors of a list, without absent ones; empty if there is no list.
  std::vector<TensorArgument> FindTensors(std::string_view name) const;
  /// Returns the tensors of a list, with nullopt for absent ones.
  std::vector<std::optional<TensorArgument>> FindOptionalTensors(std::string_view name) const;
  std::optional<std::int64_t> FindInteger(std::string_view name) const;
  std::optional<double> FindReal(std::string_view name) const;
  /// Returns the numbers of a list. A single number counts as a list of one.
  std::optional<std::vector<std::int64_t>> FindIntegers(std::string_view name) const;
  std::optional<std::vector<double>> FindReals(std::string_view name) const;
  /// The number of elements of a list.
  std::size_t CountOf(std::string_view name) const;
  /// The number of tensors that the node declares for a result that is a list.
  std::size_t parts() const { return parts_; }

 private:
  const Written* Find(std::string_view name) const;
  std::optional<TensorArgument> TensorOf(const Written& written) const;
  std::optional<std::int64_t> IntegerOf(const Written& written) const;
  std::optional<double> RealOf(const Written& written) const;
  template <class Number, class Read, class ReadElement>
  std::optional<std::vector<Number>> FindNumbers(std::string_view name, Read read,
                                                 ReadElement read_element) const;

  std::span<const std::string> names_;
  std::span<const Written> written_;
  std::span<const InputTensor> inputs_;
  std::size_t parts_;
};

}  // namespace opgraft::aten
