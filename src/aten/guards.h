// Checks that operators of ATen leave out, though they would read or write beyond their tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aten/encoding.h"
#include "aten/schema.h"
#include "aten/tensors.h"
#include "opgraft/status.h"

namespace opgraft::aten {

/// The arguments of a call in one run, by the names that the schema gives them.
class NamedArguments {
 public:
  NamedArguments(std::span<const std::string> names, std::span<const Written> written,
                 std::span<const InputTensor> inputs)
      : names_(names), written_(written), inputs_(inputs) {}

  /// nullptr for one that is absent, or no tensor.
  const InputTensor* FindTensor(std::string_view name) const;
  /// A number; nullopt for one that is absent, or cannot be known.
  std::optional<std::int64_t> FindInteger(std::string_view name) const;
  /// The number of elements of a list.
  std::size_t CountOf(std::string_view name) const;

 private:
  const Written* Find(std::string_view name) const;

  std::span<const std::string> names_;
  std::span<const Written> written_;
  std::span<const InputTensor> inputs_;
};

/// Nothing, or what is wrong: "expected ..., came ...".
using Guard = std::string (*)(const NamedArguments& arguments);

/// The check for an operator, nullptr where it needs none.
Guard FindGuard(std::string_view operator_name);

/// Whether an argument is a size that operators reckon with unchecked: it must fit into 31 bits.
bool IsSize(std::string_view parameter);

}  // namespace opgraft::aten
