// Tensors with their shapes, types and memory, as kernels of ONNX Runtime's tree use them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "opgraft/contrib/numbers.h"
#include "opgraft/contrib/status.h"
#include "opgraft/element.h"

#pragma GCC visibility push(hidden)
namespace onnxruntime {

template <class T, std::size_t kCapacity = 0>
using InlinedVector = std::vector<T>;
using TensorShapeVector = InlinedVector<std::int64_t>;

template <class... Types>
struct TypeList {};

/// An element type. There is one object for each type, so that pointers can be compared.
class DataTypeImpl {
 public:
  constexpr DataTypeImpl(std::int32_t number, std::size_t size) : number_(number), size_(size) {}

  /// ONNX's number of the type.
  std::int32_t number() const { return number_; }
  /// The size of an element in bytes.
  std::size_t Size() const { return size_; }

  template <class T>
  static const DataTypeImpl* GetType();
  /// The same as GetType, because tensors are the only values supported.
  template <class T>
  static const DataTypeImpl* GetTensorType() {
    return GetType<T>();
  }
  /// Returns nullptr if C++ has no such type.
  static const DataTypeImpl* Find(std::int32_t number);

  static std::vector<const DataTypeImpl*> AllTensorTypes();
  static std::vector<const DataTypeImpl*> AllFixedSizeTensorTypes();
  static std::vector<const DataTypeImpl*> AllNumericTensorTypes();
  static std::vector<const DataTypeImpl*> AllIEEEFloatTensorTypes();

 private:
  const std::int32_t number_;
  const std::size_t size_;
};
using MLDataType = const DataTypeImpl*;

template <class T>
MLDataType DataTypeImpl::GetType() {
  static_assert(
      opgraft::kElementType<T> != 0,
      "not an element type of tensors; those are float, double, int8_t to uint64_t, bool, "
      "std::string, MLFloat16, BFloat16");
  return Find(opgraft::kElementType<T>);
}

namespace utils {

template <class T>
constexpr std::int32_t ToTensorProtoElementType() {
  return opgraft::kElementType<T>;
}

/// Calls a function object with the type among `Types` that has the given ONNX number.
template <class... Types>
class MLTypeCallDispatcher {
 public:
  explicit MLTypeCallDispatcher(std::int32_t type) noexcept : type_(type) {}

  template <template <class...> class Function, class... Arguments>
  void Invoke(Arguments&&... arguments) const {
    const bool is_found = ((type_ == opgraft::kElementType<Types> &&
                            (static_cast<void>(Function<Types>()(arguments...)), true)) ||
                           ...);
    ORT_ENFORCE(is_found, "Unsupported data type: ", type_);
  }
  template <class Result, template <class...> class Function, class... Arguments>
  Result InvokeRet(Arguments&&... arguments) const {
    Result result = {};
    const bool is_found = ((type_ == opgraft::kElementType<Types> &&
                            (static_cast<void>(result = Function<Types>()(arguments...)), true)) ||
                           ...);
    ORT_ENFORCE(is_found, "Unsupported data type: ", type_);
    return result;
  }

 private:
  const std::int32_t type_;
};

}  // namespace utils

class TensorShape {
 public:
  TensorShape() = default;
  TensorShape(std::span<const std::int64_t> dims)  // NOLINT(google-explicit-constructor)
      : values_(dims.begin(), dims.end()) {}
  TensorShape(std::vector<std::int64_t> dims)  // NOLINT(google-explicit-constructor)
      : values_(std::move(dims)) {}
  TensorShape(std::initializer_list<std::int64_t> dims) : values_(dims) {}
  TensorShape(const std::int64_t* dims, std::size_t count) : values_(dims, dims + count) {}

  std::int64_t operator[](std::size_t index) const { return values_[index]; }
  std::int64_t& operator[](std::size_t index) { return values_[index]; }
  bool operator==(const TensorShape& other) const = default;

  std::size_t NumDimensions() const noexcept { return values_.size(); }
  std::span<const std::int64_t> GetDims() const { return values_; }
  TensorShapeVector AsShapeVector() const { return values_; }
  bool IsScalar() const { return values_.empty() || (values_.size() == 1 && values_[0] == 1); }
  void CopyDims(std::int64_t* dims, std::size_t count) const {
    for (std::size_t i = 0; i < count && i < values_.size(); ++i) dims[i] = values_[i];
  }

  /// These return the number of elements, or -1 if a size is negative. They throw if the number is
  /// too large, or if there is no such dimension.
  std::int64_t Size() const;
  std::int64_t SizeToDimension(std::size_t dimension) const;
  std::int64_t SizeFromDimension(std::size_t dimension) const;
  TensorShape Slice(std::size_t first, std::size_t end) const;
  TensorShape Slice(std::size_t first) const { return Slice(first, values_.size()); }
  /// "{2,3}"
  std::string ToString() const;

 private:
  std::vector<std::int64_t> values_;
};

inline std::ostream& operator<<(std::ostream& out, const TensorShape& shape) {
  return out << shape.ToString();
}

template <class T>
using IAllocatorUniquePtr = std::unique_ptr<T, std::function<void(T*)>>;

class IAllocator;
using AllocatorPtr = std::shared_ptr<IAllocator>;

/// Allocates memory. Memory of OpKernelContext::GetTempSpaceAllocator belongs to the runtime and is
/// valid until the call returns; memory of OpKernelInfo::GetAllocator is valid until it is freed.
class IAllocator {
 public:
  virtual ~IAllocator() = default;
  /// The memory is aligned for any instruction. Throws if there is not enough.
  virtual void* Alloc(std::size_t size) = 0;
  virtual void Free(void* memory) = 0;
  void* AllocArray(std::size_t count, std::size_t size) {
    return Alloc(SafeInt<std::size_t>(count) * size);
  }

  template <class T>
  static IAllocatorUniquePtr<T> MakeUniquePtr(AllocatorPtr allocator, std::size_t count,
                                              bool /*use_reserve*/ = false) {
    ORT_ENFORCE(allocator != nullptr, "the allocator is null");
    std::size_t size = count;
    if constexpr (!std::is_void_v<T>) size = SafeInt<std::size_t>(count) * sizeof(T);
    T* const memory = static_cast<T*>(allocator->Alloc(size));
    return {memory, [allocator = std::move(allocator)](T* given) { allocator->Free(given); }};
  }

  /// An allocator that can be used at any time and from any thread.
  static AllocatorPtr Heap();
};

/// A deleter for std::unique_ptr.
class BufferDeleter {
 public:
  BufferDeleter() = default;
  explicit BufferDeleter(AllocatorPtr allocator) : allocator_(std::move(allocator)) {}
  void operator()(void* memory) const {
    if (allocator_ != nullptr) allocator_->Free(memory);
  }

 private:
  AllocatorPtr allocator_;
};
using BufferUniquePtr = std::unique_ptr<void, BufferDeleter>;

/// A dense tensor: a view of memory of the host, or with memory of its own.
class Tensor {
 public:
  Tensor() = default;
  /// A view. Elements of type string are std::string.
  Tensor(MLDataType type, TensorShape shape, void* data)
      : type_(type), shape_(std::move(shape)), data_(data) {}
  /// Allocates memory of its own, which is not initialised.
  Tensor(MLDataType type, const TensorShape& shape, AllocatorPtr allocator);
  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = default;
  ORT_DISALLOW_COPY_AND_ASSIGNMENT(Tensor);

  static std::unique_ptr<Tensor> Create(MLDataType type, const TensorShape& shape,
                                        AllocatorPtr allocator) {
    return std::make_unique<Tensor>(type, shape, std::move(allocator));
  }
  /// Returns a tensor with these strings as its elements.
  static Tensor OfStrings(TensorShape shape, std::vector<std::string> strings);

  const TensorShape& Shape() const noexcept { return shape_; }
  MLDataType DataType() const { return type_; }
  /// ONNX's number of the element type.
  std::int32_t GetElementType() const { return type_ != nullptr ? type_->number() : 0; }
  template <class T>
  bool IsDataType() const {
    return GetElementType() == opgraft::kElementType<T>;
  }
  bool IsDataTypeString() const { return IsDataType<std::string>(); }

  /// These throw if the element type is not T.
  template <class T>
  const T* Data() const {
    return static_cast<const T*>(Checked<T>());
  }
  template <class T>
  T* MutableData() {
    return static_cast<T*>(Checked<T>());
  }
  template <class T>
  std::span<const T> DataAsSpan() const {
    return {Data<T>(), static_cast<std::size_t>(shape_.Size())};
  }
  template <class T>
  std::span<T> MutableDataAsSpan() {
    return {MutableData<T>(), static_cast<std::size_t>(shape_.Size())};
  }
  const void* DataRaw() const noexcept { return data_; }
  void* MutableDataRaw() noexcept { return data_; }
  std::size_t SizeInBytes() const;
  /// Sets a shape with the same number of elements; throws if the number differs.
  void Reshape(const TensorShape& shape);

 private:
  template <class T>
  void* Checked() const {
    static_assert(opgraft::kElementType<T> != 0, "not an element type of tensors");
    if (!IsDataType<T>()) RefuseType(opgraft::kElementType<T>);
    return data_;
  }
  [[noreturn]] void RefuseType(std::int32_t asked) const;

  MLDataType type_ = nullptr;
  TensorShape shape_;
  void* data_ = nullptr;
  IAllocatorUniquePtr<void> memory_;
  std::unique_ptr<std::vector<std::string>> strings_;
};

}  // namespace onnxruntime
#pragma GCC visibility pop
