// Contiguous results are copied as they are, small ones element by element, the rest by libtorch.
#include "aten/results.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/text.h"

namespace opgraft::aten {
namespace {

/// Up to this many elements, copying them here is faster than a call of libtorch.
constexpr std::int64_t kFewElements = 1024;
constexpr std::size_t kMostRank = 64;

/// Owns a tensor of libtorch.
class Owned {
 public:
  explicit Owned(const Libtorch& libtorch) : libtorch_(libtorch) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (tensor != nullptr) (void)libtorch_.delete_tensor_object(tensor);
  }
  Tensor tensor = nullptr;

 private:
  const Libtorch& libtorch_;
};

/// The description of a libtorch tensor. Its spans refer to the tensor.
struct Parts {
  void* data = nullptr;
  const Dtype* dtype = nullptr;
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> strides;
  std::int64_t elements = 1;

  bool IsContiguous() const {
    std::int64_t expected = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] != 1 && strides[i] != expected) return elements == 0;
      expected *= sizes[i];
    }
    return true;
  }
};

/// The shape in ONNX: that of a complex tensor ends in 2.
class OnnxShape {
 public:
  explicit OnnxShape(const Parts& parts) {
    std::copy(parts.sizes.begin(), parts.sizes.end(), sizes_.begin());
    rank_ = parts.sizes.size();
    if (parts.dtype->is_complex) sizes_[rank_++] = 2;
  }
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), rank_}; }

 private:
  std::array<std::int64_t, kMostRank + 1> sizes_;
  std::size_t rank_ = 0;
};

template <class T>
void CopyStrided(const Parts& parts, T* to) {
  const auto* const from = static_cast<const T*>(parts.data);
  const std::size_t rank = parts.sizes.size();
  std::array<std::int64_t, kMostRank> at = {};
  const std::int64_t inner = parts.sizes[rank - 1];
  const std::int64_t step = parts.strides[rank - 1];
  for (std::int64_t done = 0; done < parts.elements; done += inner) {
    std::int64_t start = 0;
    for (std::size_t i = 0; i + 1 < rank; ++i) start += at[i] * parts.strides[i];
    for (std::int64_t i = 0; i < inner; ++i) *to++ = from[start + i * step];
    for (std::size_t i = rank - 1; i > 0; --i) {
      if (++at[i - 1] < parts.sizes[i - 1]) break;
      at[i - 1] = 0;
    }
  }
}

void CopyFew(const Parts& parts, void* to) {
  switch (parts.dtype->size) {
    case 1: return CopyStrided(parts, static_cast<std::uint8_t*>(to));
    case 2: return CopyStrided(parts, static_cast<std::uint16_t*>(to));
    case 4: return CopyStrided(parts, static_cast<std::uint32_t*>(to));
    default: return CopyStrided(parts, static_cast<std::uint64_t*>(to));
  }
}

Failure CopyByLibtorch(const Libtorch& libtorch, const Device& device, const DtypeNumbers& dtypes,
                       Tensor tensor, const Parts& parts, void* to) {
  std::array<std::int64_t, kMostRank> strides;
  std::int64_t stride = 1;
  for (std::size_t i = parts.sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= parts.sizes[i];
  }
  Owned target(libtorch);
  const Failure failure = libtorch.create_tensor_from_blob(
      to, static_cast<std::int64_t>(parts.sizes.size()), parts.sizes.data(), strides.data(), 0,
      dtypes.NumberOf(*parts.dtype), device.type, device.index, &target.tensor);
  return failure != 0 ? failure : libtorch.copy_(target.tensor, tensor, 0);
}

/// Converts sparse tensors and other layouts to the one that ONNX Runtime has.
Failure ToDense(const Libtorch& libtorch, Tensor tensor, Tensor* dense) {
  Value stack[8] = {};
  Tensor handle = nullptr;
  if (const Failure failure = libtorch.new_tensor_handle(tensor, &handle); failure != 0) {
    return failure;
  }
  stack[0] = ToValue(handle);
  const Failure failure = libtorch.call_dispatcher("aten::to_dense", "", stack, libtorch.version);
  if (failure == 0) *dense = FromValue<Tensor>(stack[0]);
  return failure;
}

Status ReadParts(const Libtorch& libtorch, const Device& device, const DtypeNumbers& dtypes,
                 Tensor tensor, const std::string& who, Parts* parts) {
  std::int32_t type = 0;
  std::int32_t dtype = 0;
  std::int64_t rank = 0;
  std::int64_t* sizes = nullptr;
  std::int64_t* strides = nullptr;
  if (libtorch.get_device_type(tensor, &type) != 0 || libtorch.get_dtype(tensor, &dtype) != 0 ||
      libtorch.get_dim(tensor, &rank) != 0 || libtorch.get_sizes(tensor, &sizes) != 0 ||
      libtorch.get_strides(tensor, &strides) != 0) {
    return Status::Error(who + ": " + libtorch.TakeErrorText());
  }
  if (type != libtorch.cpu && type != device.type) {
    return Status::Error(who + " is not on the CPU" + (device.is_gpu ? " or a GPU" : ""));
  }
  // torch does not limit the rank, ONNX Runtime and NumPy do.
  if (rank > static_cast<std::int64_t>(kMostRank)) {
    return Status::Error(who + " has " + std::to_string(rank) + " dimensions, expected at most " +
                         std::to_string(kMostRank));
  }
  parts->dtype = dtypes.Find(dtype);
  if (parts->dtype == nullptr) {
    return Status::Error(who + " has torch's type number " + std::to_string(dtype) +
                         ", which ONNX Runtime does not have");
  }
  parts->sizes = {sizes, static_cast<std::size_t>(rank)};
  parts->strides = {strides, static_cast<std::size_t>(rank)};
  for (const std::int64_t size : parts->sizes) parts->elements *= size;
  if (parts->elements != 0 && libtorch.get_data_ptr(tensor, &parts->data) != 0) {
    return Status::Error(who + ": " + libtorch.TakeErrorText());
  }
  return Status();
}

/// The sizes that the node declares must be right: the runtime may have planned memory by them.
Status CheckDeclared(const WrittenResult::Tensor& declared, const Parts& parts,
                     const std::string& who) {
  const auto wrong = [&](const std::string& is, const std::string& expected) {
    return Status::Model(who + " is " + is + ", but the node's attribute 'results' says " +
                         expected);
  };
  if (declared.dtype != nullptr && declared.dtype != parts.dtype) {
    return wrong(std::string(parts.dtype->name), std::string(declared.dtype->name));
  }
  if (!declared.shape) return Status();
  bool fits = declared.shape->size() == parts.sizes.size();
  for (std::size_t i = 0; fits && i < parts.sizes.size(); ++i) {
    const std::int64_t size = (*declared.shape)[i].size;
    fits = size < 0 || size == parts.sizes[i];
  }
  if (fits) return Status();
  std::vector<std::int64_t> expected;
  for (const Dimension& dimension : *declared.shape) expected.push_back(dimension.size);
  return wrong("of shape [" + DimensionsText(parts.sizes) + "]",
               "[" + DimensionsText(expected) + "]");
}

}  // namespace

Status StoreTensor(const Libtorch& libtorch, const Device& device, const DtypeNumbers& dtypes,
                   Tensor tensor, const WrittenResult::Tensor& declared, const Taking& taking,
                   const std::string& who, std::size_t index, Outputs& outputs) {
  bool is_defined = false;
  std::int32_t layout = 0;
  if (libtorch.is_defined(tensor, &is_defined) != 0 || !is_defined) {
    return Status::Model(
        who +
        " is missing: the operator returns none here. Fix: write null in its place "
        "in the node's attribute 'results'");
  }
  Owned dense(libtorch);
  Failure failure = libtorch.get_layout(tensor, &layout);
  if (failure == 0 && layout != libtorch.strided) {
    failure = ToDense(libtorch, tensor, &dense.tensor);
    tensor = dense.tensor;
  }
  if (failure != 0) return Status::Error(who + ": " + libtorch.TakeErrorText());
  Parts parts;
  Status status = ReadParts(libtorch, device, dtypes, tensor, who, &parts);
  if (status.ok()) status = CheckDeclared(declared, parts, who);
  if (!status.ok()) return status;
  const OnnxShape shape(parts);
  void* to = nullptr;
  status = outputs.Allocate(index, shape.sizes(), &to);
  if (!status.ok() || to == nullptr || parts.elements == 0) return status;
  const std::size_t bytes =
      static_cast<std::size_t>(parts.elements) * static_cast<std::size_t>(parts.dtype->size);
  if (taking.is_hidden) {
    const std::size_t shown = std::min(bytes, taking.shown.size());
    if (shown != 0) std::memcpy(to, taking.shown.data(), shown);
    std::memset(static_cast<char*>(to) + shown, 0, bytes - shown);
  } else if (!taking.may_be_lazy && !parts.dtype->is_complex && parts.IsContiguous()) {
    return outputs.Copy(to, parts.data, bytes);
  } else if (!taking.may_be_lazy && !parts.dtype->is_complex && !device.is_gpu &&
             parts.elements <= kFewElements) {
    CopyFew(parts, to);
  } else if (CopyByLibtorch(libtorch, device, dtypes, tensor, parts, to) != 0) {
    return Status::Error(who + ": " + libtorch.TakeErrorText());
  }
  return Status();
}

}  // namespace opgraft::aten
