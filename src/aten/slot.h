// An argument for libtorch's dispatcher: made of what a node says and of its inputs, given back.
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

/// Where tensors of a call lie, in libtorch's numbers.
struct Device {
  std::int32_t type = 0;
  std::int32_t index = 0;
  bool is_gpu = false;
};

/// One argument of the dispatcher, as far as it can be made before a run. Immutable, so that any
/// thread may use it.
class Slot {
 public:
  /// Fits a value to the type that the schema wants at its place; a ModelError where it does not.
  /// `who` names node, operator and argument.
  static Status Make(const Libtorch& libtorch, const Device& device, const Type& type,
                     const Written& written, std::size_t inputs, const std::string& who,
                     Slot* slot);

  /// The value for one run, which the dispatcher takes over. An error leaves nothing behind.
  Status MakeValue(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                   std::span<const InputTensor> inputs, const std::string& who, Value* value) const;

  /// Gives back a value that the dispatcher has not taken over.
  void Free(const Libtorch& libtorch, Value value) const;

  /// Whether a complex tensor is in it.
  bool IsComplex() const;
  /// Whether it is a Scalar, which the dispatcher does not take. Its value is a double's bits.
  bool IsScalar() const;
  /// A Scalar becomes a tensor of no dimensions: for an overload that takes one in its place.
  /// That tensor is on the CPU, or on the call's device where it `must_move`.
  void MakeTensorOfScalar(bool must_move);

  /// Its integers must fit into 31 bits. Returns whether those that are known do.
  bool LimitSize();

  /// Of the input that it is.
  std::size_t place() const { return place_; }

  /// The tensor is one on the CPU, whatever the call's device is.
  void KeepOnHost();

  /// Marks the inputs that the host has to read for this argument.
  void AddReadInputs(std::vector<bool>* inputs) const;

  /// The tensor is handed over as a copy: the operator writes to it, whatever its schema says.
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
  bool is_number_of_ = false;  // of kScalar and kScalarTensor: an input holds it
  bool must_move_ = false;     // of kScalarTensor: to the device
  bool is_kept_on_host_ = false;
  Device device_;
  Form written_ = Form::kNull;  // of those: what it is
  Value constant_ = 0;
  std::size_t place_ = 0;
  std::string text_;
  std::vector<Slot> items_;
};

}  // namespace opgraft::aten
