// The parts of ONNX's messages that schemas and their inference functions use, as plain classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "opgraft/attribute.h"
#include "opgraft/contrib/status.h"
#include "opgraft/element.h"
#include "opgraft/shape.h"

#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif

#pragma GCC visibility push(hidden)
namespace ONNX_NAMESPACE {

using onnxruntime::MakeString;

/// What an inference function throws if the model is invalid.
class InferenceError final : public opgraft::ShapeError {
 public:
  using opgraft::ShapeError::ShapeError;
};

}  // namespace ONNX_NAMESPACE

#define fail_type_inference(...)          \
  throw ::ONNX_NAMESPACE::InferenceError( \
      ::ONNX_NAMESPACE::MakeString("[TypeInferenceError] ", __VA_ARGS__));
#define fail_shape_inference(...)         \
  throw ::ONNX_NAMESPACE::InferenceError( \
      ::ONNX_NAMESPACE::MakeString("[ShapeInferenceError] ", __VA_ARGS__));

namespace ONNX_NAMESPACE {

/// A repeated field. An invalid index is an error of the inference function, not a crash.
template <class T>
class Repeated {
 public:
  Repeated() = default;
  explicit Repeated(std::vector<T> elements) : elements_(std::move(elements)) {}

  int size() const { return static_cast<int>(elements_.size()); }
  bool empty() const { return elements_.empty(); }
  const T& Get(int index) const { return elements_[Place(index)]; }
  const T& operator[](int index) const { return Get(index); }
  const T& at(int index) const { return Get(index); }
  T* Mutable(int index) { return &elements_[Place(index)]; }
  T* Add() { return &elements_.emplace_back(); }
  void Add(T element) { elements_.push_back(std::move(element)); }
  void RemoveLast() {
    elements_.erase(elements_.begin() + static_cast<std::ptrdiff_t>(Place(size() - 1)));
  }
  void Clear() { elements_.clear(); }
  auto begin() const { return elements_.begin(); }
  auto end() const { return elements_.end(); }
  auto begin() { return elements_.begin(); }
  auto end() { return elements_.end(); }

 private:
  std::size_t Place(int index) const {
    if (index < 0 || index >= size()) {
      fail_shape_inference("index ", index, " is out of range for ", size(), " elements");
    }
    return static_cast<std::size_t>(index);
  }

  std::vector<T> elements_;
};

class TensorShapeProto_Dimension {
 public:
  enum ValueCase { VALUE_NOT_SET = 0, kDimValue = 1, kDimParam = 2 };

  ValueCase value_case() const { return case_; }
  bool has_dim_value() const { return case_ == kDimValue; }
  std::int64_t dim_value() const { return has_dim_value() ? value_ : 0; }
  void set_dim_value(std::int64_t value) {
    case_ = kDimValue;
    value_ = value;
  }
  bool has_dim_param() const { return case_ == kDimParam; }
  const std::string& dim_param() const { return param_; }
  void set_dim_param(std::string param) {
    case_ = kDimParam;
    param_ = std::move(param);
  }
  void clear_value() { *this = {}; }
  void clear_dim_value() {
    if (has_dim_value()) clear_value();
  }
  void clear_dim_param() {
    if (has_dim_param()) clear_value();
  }
  void Clear() { clear_value(); }
  void CopyFrom(const TensorShapeProto_Dimension& other) { *this = other; }

 private:
  ValueCase case_ = VALUE_NOT_SET;
  std::int64_t value_ = 0;
  std::string param_;
};

class TensorShapeProto {
 public:
  using Dimension = TensorShapeProto_Dimension;

  int dim_size() const { return dims_.size(); }
  const Dimension& dim(int index) const { return dims_.Get(index); }
  const Repeated<Dimension>& dim() const { return dims_; }
  Dimension* mutable_dim(int index) { return dims_.Mutable(index); }
  Repeated<Dimension>* mutable_dim() { return &dims_; }
  Dimension* add_dim() { return dims_.Add(); }
  void clear_dim() { dims_.Clear(); }
  void Clear() { dims_.Clear(); }
  void CopyFrom(const TensorShapeProto& other) { *this = other; }

 private:
  Repeated<Dimension> dims_;
};
using Dim = TensorShapeProto_Dimension;

class TypeProto_Tensor {
 public:
  bool has_elem_type() const { return elem_type_ != 0; }
  std::int32_t elem_type() const { return elem_type_; }
  void set_elem_type(std::int32_t type) { elem_type_ = type; }
  bool has_shape() const { return shape_.has_value(); }
  const TensorShapeProto& shape() const {
    static const TensorShapeProto none;
    return shape_ ? *shape_ : none;
  }
  TensorShapeProto* mutable_shape() { return shape_ ? &*shape_ : &shape_.emplace(); }
  void clear_shape() { shape_.reset(); }
  void CopyFrom(const TypeProto_Tensor& other) { *this = other; }

 private:
  std::int32_t elem_type_ = 0;
  std::optional<TensorShapeProto> shape_;
};

/// The type of a tensor, or unset: sequences, maps and other types are not supported.
class TypeProto {
 public:
  using Tensor = TypeProto_Tensor;
  enum ValueCase {
    VALUE_NOT_SET = 0,
    kTensorType = 1,
    kSequenceType = 4,
    kMapType = 5,
    kSparseTensorType = 8,
    kOptionalType = 9
  };

  ValueCase value_case() const { return tensor_ ? kTensorType : VALUE_NOT_SET; }
  bool has_tensor_type() const { return tensor_.has_value(); }
  bool has_sparse_tensor_type() const { return false; }
  bool has_sequence_type() const { return false; }
  bool has_map_type() const { return false; }
  bool has_optional_type() const { return false; }
  const TypeProto_Tensor& tensor_type() const {
    static const TypeProto_Tensor none;
    return tensor_ ? *tensor_ : none;
  }
  TypeProto_Tensor* mutable_tensor_type() { return tensor_ ? &*tensor_ : &tensor_.emplace(); }
  void Clear() { tensor_.reset(); }
  void CopyFrom(const TypeProto& other) { *this = other; }

 private:
  std::optional<TypeProto_Tensor> tensor_;
};

enum TensorProto_DataType : std::int32_t {
  TensorProto_DataType_UNDEFINED = 0,
  TensorProto_DataType_FLOAT = 1,
  TensorProto_DataType_UINT8 = 2,
  TensorProto_DataType_INT8 = 3,
  TensorProto_DataType_UINT16 = 4,
  TensorProto_DataType_INT16 = 5,
  TensorProto_DataType_INT32 = 6,
  TensorProto_DataType_INT64 = 7,
  TensorProto_DataType_STRING = 8,
  TensorProto_DataType_BOOL = 9,
  TensorProto_DataType_FLOAT16 = 10,
  TensorProto_DataType_DOUBLE = 11,
  TensorProto_DataType_UINT32 = 12,
  TensorProto_DataType_UINT64 = 13,
  TensorProto_DataType_BFLOAT16 = 16
};

/// The value of a tensor. Elements are always in raw_data; strings are in string_data.
class TensorProto {
 public:
  using DataType = TensorProto_DataType;
  static constexpr DataType UNDEFINED = TensorProto_DataType_UNDEFINED;
  static constexpr DataType FLOAT = TensorProto_DataType_FLOAT;
  static constexpr DataType UINT8 = TensorProto_DataType_UINT8;
  static constexpr DataType INT8 = TensorProto_DataType_INT8;
  static constexpr DataType UINT16 = TensorProto_DataType_UINT16;
  static constexpr DataType INT16 = TensorProto_DataType_INT16;
  static constexpr DataType INT32 = TensorProto_DataType_INT32;
  static constexpr DataType INT64 = TensorProto_DataType_INT64;
  static constexpr DataType STRING = TensorProto_DataType_STRING;
  static constexpr DataType BOOL = TensorProto_DataType_BOOL;
  static constexpr DataType FLOAT16 = TensorProto_DataType_FLOAT16;
  static constexpr DataType DOUBLE = TensorProto_DataType_DOUBLE;
  static constexpr DataType UINT32 = TensorProto_DataType_UINT32;
  static constexpr DataType UINT64 = TensorProto_DataType_UINT64;
  static constexpr DataType BFLOAT16 = TensorProto_DataType_BFLOAT16;

  TensorProto() = default;
  TensorProto(std::int32_t data_type, std::vector<std::int64_t> dims, std::string raw_data,
              std::vector<std::string> strings)
      : data_type_(data_type),
        dims_(std::move(dims)),
        raw_data_(std::move(raw_data)),
        strings_(std::move(strings)) {}

  std::int32_t data_type() const { return data_type_; }
  int dims_size() const { return dims_.size(); }
  std::int64_t dims(int index) const { return dims_.Get(index); }
  const Repeated<std::int64_t>& dims() const { return dims_; }
  bool has_raw_data() const { return data_type_ != STRING; }
  const std::string& raw_data() const { return raw_data_; }
  const Repeated<std::string>& string_data() const { return strings_; }
  const Repeated<float>& float_data() const { return Empty<float>(); }
  const Repeated<double>& double_data() const { return Empty<double>(); }
  const Repeated<std::int32_t>& int32_data() const { return Empty<std::int32_t>(); }
  const Repeated<std::int64_t>& int64_data() const { return Empty<std::int64_t>(); }

 private:
  template <class T>
  static const Repeated<T>& Empty() {
    static const Repeated<T> none;
    return none;
  }

  std::int32_t data_type_ = UNDEFINED;
  Repeated<std::int64_t> dims_;
  std::string raw_data_;
  Repeated<std::string> strings_;
};

/// Returns the elements of a tensor; throws if their type is not T.
template <class T>
std::vector<T> ParseData(const TensorProto* tensor) {
  if (tensor->data_type() != opgraft::kElementType<T>) {
    fail_shape_inference("ParseData: the tensor has element type ", tensor->data_type(),
                         ", expected ", opgraft::kElementType<T>);
  }
  if constexpr (std::is_same_v<T, std::string>) {
    return {tensor->string_data().begin(), tensor->string_data().end()};
  } else {
    std::vector<T> elements(tensor->raw_data().size() / sizeof(T));
    if (!elements.empty()) {
      std::memcpy(elements.data(), tensor->raw_data().data(), elements.size() * sizeof(T));
    }
    return elements;
  }
}

enum AttributeProto_AttributeType : std::int32_t {
  AttributeProto_AttributeType_UNDEFINED = 0,
  AttributeProto_AttributeType_FLOAT = 1,
  AttributeProto_AttributeType_INT = 2,
  AttributeProto_AttributeType_STRING = 3,
  AttributeProto_AttributeType_TENSOR = 4,
  AttributeProto_AttributeType_GRAPH = 5,
  AttributeProto_AttributeType_FLOATS = 6,
  AttributeProto_AttributeType_INTS = 7,
  AttributeProto_AttributeType_STRINGS = 8,
  AttributeProto_AttributeType_TENSORS = 9,
  AttributeProto_AttributeType_GRAPHS = 10
};

/// The value of an attribute.
class AttributeProto {
 public:
  using AttributeType = AttributeProto_AttributeType;
  static constexpr AttributeType UNDEFINED = AttributeProto_AttributeType_UNDEFINED;
  static constexpr AttributeType FLOAT = AttributeProto_AttributeType_FLOAT;
  static constexpr AttributeType INT = AttributeProto_AttributeType_INT;
  static constexpr AttributeType STRING = AttributeProto_AttributeType_STRING;
  static constexpr AttributeType TENSOR = AttributeProto_AttributeType_TENSOR;
  static constexpr AttributeType GRAPH = AttributeProto_AttributeType_GRAPH;
  static constexpr AttributeType FLOATS = AttributeProto_AttributeType_FLOATS;
  static constexpr AttributeType INTS = AttributeProto_AttributeType_INTS;
  static constexpr AttributeType STRINGS = AttributeProto_AttributeType_STRINGS;
  static constexpr AttributeType TENSORS = AttributeProto_AttributeType_TENSORS;
  static constexpr AttributeType GRAPHS = AttributeProto_AttributeType_GRAPHS;

  /// `value` must not be absent.
  AttributeProto(std::string name, const opgraft::AttributeValue& value);

  const std::string& name() const { return name_; }
  AttributeType type() const { return type_; }
  bool has_f() const { return type_ == FLOAT; }
  bool has_i() const { return type_ == INT; }
  bool has_s() const { return type_ == STRING; }
  bool has_t() const { return type_ == TENSOR; }
  float f() const { return has_f() ? floats_.Get(0) : 0; }
  std::int64_t i() const { return has_i() ? ints_.Get(0) : 0; }
  const std::string& s() const {
    static const std::string none;
    return has_s() ? strings_.Get(0) : none;
  }
  const TensorProto& t() const { return tensor_; }
  const Repeated<float>& floats() const { return floats_; }
  float floats(int index) const { return floats_.Get(index); }
  int floats_size() const { return floats_.size(); }
  const Repeated<std::int64_t>& ints() const { return ints_; }
  std::int64_t ints(int index) const { return ints_.Get(index); }
  int ints_size() const { return ints_.size(); }
  const Repeated<std::string>& strings() const { return strings_; }
  const std::string& strings(int index) const { return strings_.Get(index); }
  int strings_size() const { return strings_.size(); }

 private:
  std::string name_;
  AttributeType type_ = UNDEFINED;
  Repeated<float> floats_;
  Repeated<std::int64_t> ints_;
  Repeated<std::string> strings_;
  TensorProto tensor_;
};

}  // namespace ONNX_NAMESPACE
#pragma GCC visibility pop
