// Decides which of an operator's kernels runs which types on each device.
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>

#include "opgraft/binding.h"
#include "opgraft/combinations.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

/// `Kernels` are the declared kernels, each a Given; `Variables` are the operator's type variables.
template <class Inputs, class Outputs, class Attributes, class Variables, class... Kernels>
struct KernelChoice {
  /// The kernel type for one combination of types.
  template <class Given, class C>
  using Bound = typename KernelFor<typename Given::Kind, Variables, C>::template Type<
      Binding<typename Given::Device, Inputs, Outputs, Attributes, C>>;

  template <class Given, class C>
  static constexpr bool Takes() {
    if constexpr (Binding<typename Given::Device, Inputs, Outputs, Attributes, C>::kIsPossible) {
      return Bound<Given, C>::kStyle.fits;
    } else {
      return false;
    }
  }

  /// Returns the index of the first kernel for the device, from `kIndex` on, that takes this
  /// combination of types, or the number of kernels if none does. Later kernels are not
  /// instantiated.
  template <class Device, class C, std::size_t kIndex = 0>
  static constexpr std::size_t Find() {
    if constexpr (kIndex < sizeof...(Kernels)) {
      using Given = std::tuple_element_t<kIndex, std::tuple<Kernels...>>;
      if constexpr (std::is_same_v<typename Given::Device, Device>) {
        if constexpr (Takes<Given, C>()) {
          return kIndex;
        } else {
          return Find<Device, C, kIndex + 1>();
        }
      } else {
        return Find<Device, C, kIndex + 1>();
      }
    } else {
      return kIndex;
    }
  }

  /// Whether each kernel for the device runs some types. A kernel that runs none is a mistake.
  template <class Device>
  static constexpr bool IsEachFound() {
    std::array<bool, sizeof...(Kernels) + 1> is_found = {};
    ForEachCombination(Variables(), Combination<>(), [&](auto combination) {
      is_found[Find<Device, decltype(combination)>()] = true;
    });
    std::size_t place = 0;
    return ((is_found[place++] || !std::is_same_v<typename Kernels::Device, Device>) && ...);
  }
};

}  // namespace opgraft::internal
#pragma GCC visibility pop
