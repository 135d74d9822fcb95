// The arguments of CUDA kernels: tensors on the GPU, or on the host if declared so.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "opgraft/arguments.h"
#include "opgraft/device_tensor.h"

#pragma GCC visibility push(hidden)
namespace opgraft::internal {

/// The devices that kernels are written for.
struct ForCpu {
  static constexpr const char* kName = "cpu";
};
struct ForCuda {
  static constexpr const char* kName = "cuda";
};

/// The type of a value whose elements are on the GPU.
template <class T>
struct OnDevice {};

/// The type of a value in a kernel for a device.
template <class T, class Device, bool kIsOnHost>
using Placed = std::conditional_t<std::is_same_v<Device, ForCpu> || kIsOnHost, T, OnDevice<T>>;

/// Whether a value of this type can be in the memory that its type names.
template <class T>
inline constexpr bool kCanBeThere = !std::is_same_v<T, OnDevice<std::string>>;

template <class T>
class InputView<OnDevice<T>> : public TypedInputView<T, DeviceTensor<const T>> {
 public:
  using TypedInputView<T, DeviceTensor<const T>>::TypedInputView;
};

template <>
class InputView<OnDevice<Any>> {
 public:
  using Argument = AnyDeviceTensor;

  InputView(const OpgraftTensor& tensor, std::size_t index)
      : view_(tensor.data, tensor.element_type, {tensor.shape, tensor.rank}) {
    if (tensor.element_type == 0) RefuseType("input", index, 0, 0);
    if (tensor.element_type == kElementType<std::string>) {
      throw std::invalid_argument("input " + std::to_string(index) +
                                  " has strings, which cannot be on a GPU");
    }
  }
  Argument Get() const { return view_; }

 private:
  Argument view_;
};

template <class T>
struct OutputOf<OnDevice<T>> {
  using Element = T;
  using View = DeviceTensor<T>;
};

}  // namespace opgraft::internal
#pragma GCC visibility pop
