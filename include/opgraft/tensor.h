// Tensors as a kernel sees them: views of the host's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "opgraft/element.h"
#include "opgraft/element_table.h"

#pragma GCC visibility push(hidden)  // each pack has its own copy
namespace opgraft {

namespace internal {

/// "float32" for 1.
inline std::string ElementName(std::int32_t number) {
  const ElementType* const type = FindElementType(number);
  return type != nullptr && number != 0 ? std::string(type->name)
         : number == 0                  ? "none"
                                        : "type number " + std::to_string(number);
}

/// Throws because a tensor does not have the element type that the kernel asks for.
[[noreturn]] inline void RefuseElements(std::int32_t came, std::int32_t expected) {
  throw std::invalid_argument("a tensor is " + ElementName(came) + ", expected " +
                              ElementName(expected));
}

}  // namespace internal

namespace internal {

/// The shape of a tensor, wherever its elements are.
class ShapeView {
 public:
  ShapeView() = default;
  explicit ShapeView(std::span<const std::int64_t> shape) : shape_(shape), size_(1) {
    for (const std::int64_t dimension : shape) size_ *= static_cast<std::size_t>(dimension);
  }

  /// The number of elements.
  std::size_t size() const { return size_; }
  std::span<const std::int64_t> shape() const { return shape_; }
  std::size_t rank() const { return shape_.size(); }
  /// The size of an axis; -1 is the last axis. Throws if there is no such axis.
  std::int64_t dimension(std::ptrdiff_t axis) const {
    const auto rank = static_cast<std::ptrdiff_t>(shape_.size());
    if (axis < -rank || axis >= rank) {
      throw std::out_of_range("there is no axis " + std::to_string(axis) + " in a tensor of rank " +
                              std::to_string(rank));
    }
    return shape_[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
  }

 private:
  std::span<const std::int64_t> shape_;
  std::size_t size_ = 0;
};

}  // namespace internal

/// The elements of a dense tensor in row-major order, and its shape. `Tensor<const float>` is an
/// input, `Tensor<float>` an output. Valid during the call that it is passed to.
template <class T>
class Tensor : public internal::ShapeView {
 public:
  Tensor() = default;
  Tensor(T* data, std::span<const std::int64_t> shape) : ShapeView(shape), data_(data) {}
  /// An output converts to an input.
  template <class U>
    requires(!std::is_const_v<U> && std::is_same_v<const U, T>)
  Tensor(const Tensor<U>& other)  // NOLINT(google-explicit-constructor)
      : ShapeView(other), data_(other.data()) {}

  T* data() const { return data_; }
  /// The element at `index` in row-major order.
  T& operator[](std::size_t index) const { return data_[index]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }

 private:
  T* data_ = nullptr;
};

/// What a kernel gets for a variadic input or output.
template <class T>
using Tensors = std::span<const Tensor<T>>;

/// The type of an input of any element type: the kernel gets an AnyTensor.
struct Any {};

/// A tensor whose element type is known only at run time.
class AnyTensor {
 public:
  AnyTensor() = default;
  AnyTensor(const void* data, std::int32_t element_type, std::span<const std::int64_t> shape)
      : data_(data), element_type_(element_type), shape_(shape) {}

  /// ONNX's number of the element type, such as kElementType<float>.
  std::int32_t element_type() const { return element_type_; }
  std::span<const std::int64_t> shape() const { return shape_; }

  template <class T>
  bool Is() const {
    return element_type_ == kElementType<T>;
  }
  /// Throws if the element type is not T.
  template <class T>
  Tensor<const T> As() const {
    if (!Is<T>()) internal::RefuseElements(element_type_, kElementType<T>);
    return {static_cast<const T*>(data_), shape_};
  }
  /// Does not check the type. Strings are std::string objects.
  const void* data() const { return data_; }

 private:
  const void* data_ = nullptr;
  std::int32_t element_type_ = 0;
  std::span<const std::int64_t> shape_;
};

/// What a kernel gets for a variadic input of opgraft::Any.
using AnyTensors = std::span<const AnyTensor>;

/// A tensor that owns its elements: the value of an attribute.
class TensorValue {
 public:
  TensorValue() = default;
  template <class T>
  TensorValue(std::vector<std::int64_t> shape, const std::vector<T>& elements)
      : element_type_(kElementType<T>), element_size_(sizeof(T)), shape_(std::move(shape)) {
    static_assert(kElementType<T> != 0, "not an element type of tensors");
    if constexpr (std::is_same_v<T, std::string>) {
      strings_ = elements;
    } else {
      bytes_.resize(elements.size() * sizeof(T));
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const T element = elements[i];
        const auto* from = reinterpret_cast<const std::byte*>(&element);
        for (std::size_t j = 0; j < sizeof(T); ++j) bytes_[i * sizeof(T) + j] = from[j];
      }
    }
  }
  TensorValue(std::int32_t element_type, std::vector<std::int64_t> shape,
              std::vector<std::byte> bytes, std::vector<std::string> strings)
      : element_type_(element_type),
        shape_(std::move(shape)),
        bytes_(std::move(bytes)),
        strings_(std::move(strings)) {}

  std::int32_t element_type() const { return element_type_; }
  std::span<const std::int64_t> shape() const { return shape_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  const std::vector<std::string>& strings() const { return strings_; }
  /// Whether the number of elements matches the shape.
  bool IsWhole() const {
    std::size_t count = 1;
    for (const std::int64_t size : shape_) {
      if (size < 0 || __builtin_mul_overflow(count, static_cast<std::size_t>(size), &count)) {
        return false;
      }
    }
    return element_type_ == kElementType<std::string> ? count == strings_.size()
                                                      : count * element_size_ == bytes_.size();
  }
  /// Throws if the element type is not T.
  template <class T>
  Tensor<const T> As() const {
    return View().template As<T>();
  }
  AnyTensor View() const {
    const void* data = bytes_.data();
    if (element_type_ == kElementType<std::string>) data = strings_.data();
    return {data, element_type_, shape_};
  }

 private:
  std::int32_t element_type_ = 0;
  std::size_t element_size_ = 1;
  std::vector<std::int64_t> shape_;
  std::vector<std::byte> bytes_;
  std::vector<std::string> strings_;
};

namespace internal {

/// Allocates the tensor of one output, as a `View`.
template <class View>
class OutputSource {
 public:
  virtual bool IsWanted() const = 0;
  virtual View Allocate(std::span<const std::int64_t> shape) = 0;

 protected:
  ~OutputSource() = default;
};

template <class View>
class OpenOutput {
 public:
  OpenOutput() = default;
  explicit OpenOutput(OutputSource<View>* source) : source_(source) {}

  /// False if the node omits the output at the end of its list: there is no need to compute it.
  bool IsWanted() const { return source_->IsWanted(); }
  /// Allocates the whole output. Must be called once for each output that is wanted, even if it is
  /// empty. If there is not enough memory, throws to end the call with an error of the host.
  View Allocate(std::span<const std::int64_t> shape) const { return source_->Allocate(shape); }
  View Allocate(std::initializer_list<std::int64_t> shape) const {
    return source_->Allocate({shape.begin(), shape.size()});
  }

 private:
  OutputSource<View>* source_ = nullptr;
};

}  // namespace internal

/// An output whose shape the kernel determines itself.
template <class T>
using Output = internal::OpenOutput<Tensor<T>>;

/// What a kernel gets for a variadic output whose shapes it determines itself.
template <class T>
using Outputs = std::span<const Output<T>>;

}  // namespace opgraft
#pragma GCC visibility pop
