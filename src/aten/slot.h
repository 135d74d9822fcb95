// An argument for libtorch's dispatcher: made from the node's text and its inputs, freed after the
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "aten/encoding.h"
#include "aten/libtorch.h"
#include "aten/schema.h"
#include "aten/tensors.h"
#include "opgraft/status.h"

namespace opgraft::aten {

/// The device of a call's tensors, in libtorch's numbers.
struct Device {
  std::int32_t type = 0;
  std::int32_t index = 0;
  bool is_gpu = false;
};

/// One argument of the dispatcher, prepared as far as possible before a run. It is immutable during
/// runs, so that any thread may use it.
class Slot {
 public:
  /// Converts a value to the parameter's type in the schema; returns a ModelError if it does not
  /// match. `who` names node, operator and argument.
  static Status Make(const Libtorch& libtorch, const Device& device, const Type& type,
                     const Written& written, std::size_t inputs, const std::string& who,
                     Slot* slot);

  /// Makes the value for one run, which the dispatcher takes over. An error leaves nothing to free.
  Status MakeValue(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                   std::span<const InputTensor> inputs, const std::string& who, Value* value) const;

  /// Frees a value that the dispatcher has not taken over.
  void Free(const Libtorch& libtorch, Value value) const;

  /// Whether it is or contains a complex tensor.
  bool IsComplex() const;
  /// Whether it is a Scalar, which the dispatcher does not take. Its value is the bits of a double.
  bool IsScalar() const;
  /// Makes a Scalar a tensor without dimensions, for an overload that takes a tensor in its place.
  /// That tensor is on the CPU, or on the call's device if `must_move`.
  void MakeTensorOfScalar(bool must_move);

  /// Requires its integers to fit into 31 bits. Returns whether those known before a run do.
  bool LimitSize();

  /// The index of the input that it takes.
  std::size_t place() const { return place_; }

  /// Keeps the tensor on the CPU, whatever the call's device is.
  void KeepOnHost();

  /// Marks the inputs whose elements are read on the CPU for this argument.
  void AddReadInputs(std::vector<bool>* inputs) const;

  /// Passes a copy of the tensor, because the operator writes to it though its schema does not say
  /// so.
  void Copy() { is_copied_ = form_ == SlotForm::kTensor; }

 private:
  enum class SlotForm : std::uint8_t {
    kConstant,
    kText,
    kTensor,
    kNumber,
    kNumbers,
    kList,
    kScalar,
    kScalarTensor,
  };

  Status Fit(const Libtorch& libtorch, const Type& type, const Written& written,
             const std::string& who);
  Status FitName(const Libtorch& libtorch, const Written& written, const std::string& who);
  Status MakeContent(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                     std::span<const InputTensor> inputs, const std::string& who,
                     Value* value) const;
  Status MakeTensor(const Libtorch& libtorch, const DtypeNumbers& dtypes, const InputTensor& input,
                    const std::string& who, Value* value) const;
  Status MakeScalarTensor(const Libtorch& libtorch, std::span<const InputTensor> inputs,
                          const std::string& who, Value* value) const;
  Status MakeList(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                  std::span<const InputTensor> inputs, const std::string& who, Value* value) const;
  Status MakeNumbers(const Libtorch& libtorch, const InputTensor& input, const std::string& who,
                     Value* value) const;
  void FreeContent(const Libtorch& libtorch, Value value) const;

  SlotForm form_ = SlotForm::kConstant;
  Kind kind_ = Kind::kTensor;
  bool is_boxed_ = false;
  bool is_complex_ = false;
  bool is_copied_ = false;
  bool is_size_ = false;
  bool is_number_of_ = false;  // kScalar and kScalarTensor: an input holds the number
  bool must_move_ = false;     // kScalarTensor: the tensor is moved to the device
  bool is_kept_on_host_ = false;
  Device device_;
  Form written_ = Form::kNull;  // kScalar and kScalarTensor: how the number is written
  Value constant_ = 0;
  std::size_t place_ = 0;
  std::string text_;
  std::vector<Slot> items_;
};

}  // namespace opgraft::aten
