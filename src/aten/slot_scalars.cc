// Makes a Scalar a tensor without dimensions, for overloads that take a tensor in its place.
#include <algorithm>
#include <bit>
#include <optional>

#include "aten/slot.h"

namespace opgraft::aten {
namespace {

/// Moves a tensor without dimensions to a device. On failure the tensor is deleted.
Failure Move(const Libtorch& libtorch, const Device& device, Tensor* tensor) {
  constexpr std::int32_t kWithoutWaiting = 1;
  std::int32_t dtype = 0;
  Tensor moved = nullptr;
  Failure failure = libtorch.get_dtype(*tensor, &dtype);
  if (failure == 0) {
    failure = libtorch.empty_strided(0, nullptr, nullptr, dtype, device.type, device.index, &moved);
  }
  if (failure == 0) failure = libtorch.copy_(moved, *tensor, kWithoutWaiting);
  (void)libtorch.delete_tensor_object(*tensor);
  if (failure != 0 && moved != nullptr) (void)libtorch.delete_tensor_object(moved);
  *tensor = moved;
  return failure;
}

}  // namespace

/// Chooses the type so that the result has the same type as with a Scalar, by torch's promotion
/// rules: tensors with dimensions take precedence, and integers give way to floats.
Status Slot::MakeScalarTensor(const Libtorch& libtorch, std::span<const InputTensor> inputs,
                              const std::string& who, Value* value) const {
  Form form = written_;
  Value content = constant_;
  if (is_number_of_) {
    const InputTensor& input = inputs[place_];
    const std::optional<double> real = Count(input.shape) == 1 ? ReadReal(input, 0) : std::nullopt;
    if (!real) {
      return Status::Model(who + ": input %" + std::to_string(place_) + " must hold one number");
    }
    const std::optional<std::int64_t> integer = ReadInteger(input, 0);
    form = !integer ? Form::kFloat : input.element_type == 9 ? Form::kBool : Form::kInt;
    content = integer ? static_cast<Value>(*integer) : std::bit_cast<Value>(*real);
  }
  Tensor tensor = nullptr;
  Failure failure = 0;
  if (form == Form::kBool) {
    failure = libtorch.scalar_to_tensor_bool(content != 0, &tensor);
  } else if (form == Form::kInt) {
    failure = libtorch.scalar_to_tensor_int64(static_cast<std::int64_t>(content), &tensor);
  } else {
    const auto is_wide = [](const InputTensor& input) {
      constexpr int kFloat16 = 10;
      constexpr int kBfloat16 = 16;
      const bool is_real = input.element_type == 1 || input.element_type == kFloat16 ||
                           input.element_type == kBfloat16;
      return input.element_type == 11 || (is_real && !input.shape.empty());
    };
    const auto number = std::bit_cast<double>(content);
    const bool wants_double = inputs.empty() || std::any_of(inputs.begin(), inputs.end(), is_wide);
    failure = wants_double ? libtorch.scalar_to_tensor_float64(number, &tensor)
                           : libtorch.scalar_to_tensor_float32(static_cast<float>(number), &tensor);
  }
  if (failure == 0 && must_move_) failure = Move(libtorch, device_, &tensor);
  if (failure != 0) return Status::Error(who + ": " + libtorch.TakeErrorText());
  *value = ToValue(tensor);
  return Status();
}

}  // namespace opgraft::aten
