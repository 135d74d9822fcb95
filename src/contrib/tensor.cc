// The types, shapes and tensors of opgraft/contrib.h.
#include "opgraft/contrib/tensor.h"

#include <algorithm>
#include <limits>

#include "base/element_type.h"

namespace onnxruntime {
namespace {

using opgraft::kElementType;

template <class T>
constexpr DataTypeImpl kType(kElementType<T>, sizeof(T));

constexpr const DataTypeImpl* kTypes[] = {
    &kType<float>,        &kType<double>,        &kType<MLFloat16>,     &kType<BFloat16>,
    &kType<std::int8_t>,  &kType<std::int16_t>,  &kType<std::int32_t>,  &kType<std::int64_t>,
    &kType<std::uint8_t>, &kType<std::uint16_t>, &kType<std::uint32_t>, &kType<std::uint64_t>,
    &kType<bool>,         &kType<std::string>};

template <class Condition>
std::vector<MLDataType> TypesThat(const Condition& condition) {
  std::vector<MLDataType> types;
  std::copy_if(std::begin(kTypes), std::end(kTypes), std::back_inserter(types),
               [&](MLDataType type) { return condition(type->number()); });
  return types;
}

class HeapAllocator final : public IAllocator {
 public:
  void* Alloc(std::size_t size) override { return operator new(size > 0 ? size : 1, kAlignment); }
  void Free(void* memory) override { operator delete(memory, kAlignment); }

 private:
  static constexpr std::align_val_t kAlignment{64};
};

std::int64_t Product(std::span<const std::int64_t> sizes) {
  SafeInt<std::int64_t> product = 1;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  for (const std::int64_t size : sizes) {
    if (size < 0) return -1;
    product *= size;
  }
  return product;
}

}  // namespace

const DataTypeImpl* DataTypeImpl::Find(std::int32_t number) {
  for (const DataTypeImpl* const type : kTypes) {
    if (type->number() == number) return type;
  }
  return nullptr;
}

std::vector<MLDataType> DataTypeImpl::AllTensorTypes() {
  return TypesThat([](std::int32_t) { return true; });
}
std::vector<MLDataType> DataTypeImpl::AllFixedSizeTensorTypes() {
  return TypesThat([](std::int32_t number) { return number != kElementType<std::string>; });
}
std::vector<MLDataType> DataTypeImpl::AllNumericTensorTypes() {
  return TypesThat([](std::int32_t number) {
    return number != kElementType<std::string> && number != kElementType<bool>;
  });
}
std::vector<MLDataType> DataTypeImpl::AllIEEEFloatTensorTypes() {
  return TypesThat([](std::int32_t number) {
    return number == kElementType<float> || number == kElementType<double> ||
           number == kElementType<MLFloat16>;
  });
}

std::int64_t TensorShape::Size() const { return Product(values_); }

std::int64_t TensorShape::SizeToDimension(std::size_t dimension) const {
  ORT_ENFORCE(dimension <= values_.size(), "dimension ", dimension, " of the shape ", ToString());
  return Product(std::span(values_).first(dimension));
}

std::int64_t TensorShape::SizeFromDimension(std::size_t dimension) const {
  ORT_ENFORCE(dimension <= values_.size(), "dimension ", dimension, " of the shape ", ToString());
  return Product(std::span(values_).subspan(dimension));
}

TensorShape TensorShape::Slice(std::size_t first, std::size_t end) const {
  ORT_ENFORCE(first <= end && end <= values_.size(), "dimensions ", first, " to ", end,
              " of the shape ", ToString());
  return {values_.data() + first, end - first};
}

std::string TensorShape::ToString() const {
  std::string text;
  for (const std::int64_t size : values_) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "{" + text + "}";
}

AllocatorPtr IAllocator::Heap() { return std::make_shared<HeapAllocator>(); }

Tensor::Tensor(MLDataType type, const TensorShape& shape, AllocatorPtr allocator)
    : type_(type), shape_(shape) {
  ORT_ENFORCE(type != nullptr, "a tensor without a type");
  ORT_ENFORCE(shape.Size() >= 0, "a tensor of the shape ", shape.ToString());
  if (IsDataTypeString()) {
    strings_ = std::make_unique<std::vector<std::string>>(static_cast<std::size_t>(shape.Size()));
    data_ = strings_->data();
  } else {
    memory_ = IAllocator::MakeUniquePtr<void>(std::move(allocator), SizeInBytes());
    data_ = memory_.get();
  }
}

Tensor Tensor::OfStrings(TensorShape shape, std::vector<std::string> strings) {
  Tensor made(DataTypeImpl::GetType<std::string>(), std::move(shape), nullptr);
  made.strings_ = std::make_unique<std::vector<std::string>>(std::move(strings));
  made.data_ = made.strings_->data();
  return made;
}

std::size_t Tensor::SizeInBytes() const {
  if (type_ == nullptr) return 0;
  return SafeInt<std::size_t>(shape_.Size()) * type_->Size();
}

void Tensor::Reshape(const TensorShape& shape) {
  ORT_ENFORCE(shape_.Size() == shape.Size(), "Tensor size (", shape_.Size(), ") != new size (",
              shape.Size(), ")");
  shape_ = shape;
}

void Tensor::RefuseType(std::int32_t asked) const {
  ORT_THROW("Tensor type mismatch: the kernel asks for ", opgraft::ElementTypeName(asked),
            ", the tensor is ", opgraft::ElementTypeName(GetElementType()));
}

}  // namespace onnxruntime
