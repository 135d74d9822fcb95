// Tensors on a GPU, as seen by the host code of a CUDA kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "opgraft/element.h"
#include "opgraft/tensor.h"

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft {

/// Declares an input whose elements are read on the host: `.Input<opgraft::OnHost<std::int64_t>>`.
/// Kernels for the CPU are not affected; kernels for CUDA get it as an opgraft::Tensor.
template <class T>
struct OnHost {};

namespace internal {

/// Always false, but depends on a template parameter.
template <class>
inline constexpr bool kIsReadOnTheHost = false;

}  // namespace internal

/// A tensor whose elements are on the GPU: `data()` is for code that runs there, on the stream of
/// the call. `DeviceTensor<const float>` is an input, `DeviceTensor<float>` an output.
template <class T>
class DeviceTensor : public internal::ShapeView {
  static_assert(!std::is_same_v<std::remove_const_t<T>, std::string>,
                "strings cannot be on a GPU: a CUDA kernel takes an input of strings declared as "
                "opgraft::OnHost<std::string>, and has no outputs of strings");

 public:
  DeviceTensor() = default;
  DeviceTensor(T* data, std::span<const std::int64_t> shape) : ShapeView(shape), data_(data) {}
  /// An output converts to an input.
  template <class U>
    requires(!std::is_const_v<U> && std::is_same_v<const U, T>)
  DeviceTensor(const DeviceTensor<U>& other)  // NOLINT(google-explicit-constructor)
      : ShapeView(other), data_(other.data()) {}

  T* data() const { return data_; }

  template <class Index>
  T& operator[](Index) const {
    static_assert(internal::kIsReadOnTheHost<Index>,
                  "the elements of a DeviceTensor are on the GPU, so that the host cannot access "
                  "them: pass data() to code that runs there, or declare the input as "
                  "opgraft::OnHost<T>");
    return *data_;
  }
  T* begin() const = delete;  // for the same reason
  T* end() const = delete;

 private:
  T* data_ = nullptr;
};

/// What a CUDA kernel gets for a variadic input or output.
template <class T>
using DeviceTensors = std::span<const DeviceTensor<T>>;

/// A tensor on the GPU whose element type is known only at run time: an input of opgraft::Any.
class AnyDeviceTensor {
 public:
  AnyDeviceTensor() = default;
  AnyDeviceTensor(const void* data, std::int32_t element_type, std::span<const std::int64_t> shape)
      : data_(data), element_type_(element_type), shape_(shape) {}

  /// ONNX's number of the element type, such as kElementType<float>.
  std::int32_t element_type() const { return element_type_; }
  std::span<const std::int64_t> shape() const { return shape_; }
  const void* data() const { return data_; }

  template <class T>
  bool Is() const {
    return element_type_ == kElementType<T>;
  }
  /// Throws if the element type is not T.
  template <class T>
  DeviceTensor<const T> As() const {
    if (!Is<T>()) internal::RefuseElements(element_type_, kElementType<T>);
    return {static_cast<const T*>(data_), shape_};
  }

 private:
  const void* data_ = nullptr;
  std::int32_t element_type_ = 0;
  std::span<const std::int64_t> shape_;
};

using AnyDeviceTensors = std::span<const AnyDeviceTensor>;

/// An output whose shape a CUDA kernel determines itself.
template <class T>
using DeviceOutput = internal::OpenOutput<DeviceTensor<T>>;
template <class T>
using DeviceOutputs = std::span<const DeviceOutput<T>>;

}  // namespace opgraft
#pragma GCC visibility pop
