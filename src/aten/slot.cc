// Makes the values: each is either the bits of a number, or an object of libtorch that must be
// freed once.
#include "aten/slot.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>

#include "base/element_type.h"
#include "base/text.h"

namespace opgraft::aten {
namespace {

/// The rank of most tensors is at most this.
constexpr std::size_t kUsualRank = 8;

Value FromNumber(double number) { return std::bit_cast<Value>(number); }
Value FromInteger(std::int64_t integer) { return static_cast<Value>(integer); }

bool IsSmall(std::int64_t integer) {
  return integer >= std::numeric_limits<std::int32_t>::min() &&
         integer <= std::numeric_limits<std::int32_t>::max();
}

/// Returns number `index` of an input as an argument of this kind; nullopt if it has another type
/// or is out of range.
std::optional<Value> ReadNumber(const InputTensor& input, std::size_t index, Kind kind,
                                bool is_size) {
  if (kind == Kind::kFloat || kind == Kind::kScalar) {
    const std::optional<double> real = ReadReal(input, index);
    return real ? std::optional(FromNumber(*real)) : std::nullopt;
  }
  const std::optional<std::int64_t> integer = ReadInteger(input, index);
  if (!integer || (is_size && !IsSmall(*integer))) return std::nullopt;
  return kind == Kind::kBool ? Value{*integer != 0} : FromInteger(*integer);
}

Status Wrong(const std::string& who, const Type& type, const std::string& got) {
  return Status::Model(who + ": expected " + type.Text() + ", got " + got);
}

std::string Describe(const Written& written) {
  switch (written.form) {
    case Form::kNull: return "null";
    case Form::kBool: return written.integer != 0 ? "true" : "false";
    case Form::kInt: return std::to_string(written.integer);
    case Form::kFloat: return "the float " + std::to_string(written.real);
    case Form::kComplex: return "a complex number";
    case Form::kText: return "the text \"" + Readable(written.text.substr(0, 60)) + "\"";
    case Form::kName: return "torch." + Readable(written.text.substr(0, 60));
    case Form::kDevice: return "a device";
    case Form::kTensor:
    case Form::kComplexTensor: return "a tensor";
    case Form::kNumberOf: return "the number in an input";
    case Form::kNumbersOf: return "the numbers in an input";
    case Form::kList: return "a list";
  }
  return "";
}

}  // namespace

Status Slot::Make(const Libtorch& libtorch, const Device& device, const Type& type,
                  const Written& written, std::size_t inputs, const std::string& who, Slot* slot) {
  *slot = Slot();
  slot->device_ = device;
  slot->kind_ = type.kind;
  if (written.form == Form::kNull) {
    return type.is_optional ? Status() : Wrong(who, type, Describe(written));
  }
  slot->is_boxed_ = type.is_optional;
  if (written.IsInput() && static_cast<std::size_t>(written.integer) >= inputs) {
    return Status::Model(who + ": it is input %" + std::to_string(written.integer) +
                         ", but the node has only " + std::to_string(inputs) +
                         (inputs == 1 ? " input" : " inputs"));
  }
  if (!type.is_list) return slot->Fit(libtorch, type, written, who);
  Type element = type;
  element.is_list = false;
  element.is_optional = type.has_optional_elements;
  if (written.form == Form::kNumbersOf) {
    if (type.kind != Kind::kInt && type.kind != Kind::kFloat && type.kind != Kind::kBool) {
      return Wrong(who, type, Describe(written));
    }
    slot->form_ = SlotForm::kNumbers;
    slot->place_ = static_cast<std::size_t>(written.integer);
    return Status();
  }
  slot->form_ = SlotForm::kList;
  std::vector<Written> spread;
  if (written.form != Form::kList) {
    if (type.count == 0) return Wrong(who, type, Describe(written));
    spread.assign(static_cast<std::size_t>(type.count), written);
  }
  for (const Written& item : spread.empty() ? written.items : spread) {
    Slot& made = slot->items_.emplace_back();
    Status status = Make(libtorch, device, element, item, inputs, who, &made);
    if (!status.ok()) return status;
  }
  return Status();
}

Status Slot::Fit(const Libtorch& libtorch, const Type& type, const Written& written,
                 const std::string& who) {
  if (written.IsInput()) place_ = static_cast<std::size_t>(written.integer);
  const auto constant = [&](Value value) {
    constant_ = value;
    return Status();
  };
  const bool is_number_of = written.form == Form::kNumberOf;
  switch (type.kind) {
    case Kind::kTensor:
      is_complex_ = written.form == Form::kComplexTensor;
      if (written.form != Form::kTensor && !is_complex_) break;
      form_ = SlotForm::kTensor;
      return Status();
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBool:
      if (is_number_of) {
        form_ = SlotForm::kNumber;
        return Status();
      }
      if (type.kind == Kind::kInt && written.form == Form::kInt) {
        return constant(FromInteger(written.integer));
      }
      if (type.kind == Kind::kBool && written.form == Form::kBool) {
        return constant(FromInteger(written.integer));
      }
      if (type.kind != Kind::kFloat) break;
      if (written.form == Form::kFloat) return constant(FromNumber(written.real));
      if (written.form != Form::kInt) break;
      return constant(FromNumber(static_cast<double>(written.integer)));
    case Kind::kScalar:
      if (written.form != Form::kBool && written.form != Form::kInt &&
          written.form != Form::kFloat && !is_number_of) {
        break;
      }
      form_ = SlotForm::kScalar;
      is_number_of_ = is_number_of;
      written_ = written.form;
      return constant(written.form == Form::kFloat ? FromNumber(written.real)
                                                   : FromInteger(written.integer));
    case Kind::kText:
      if (written.form != Form::kText) break;
      form_ = SlotForm::kText;
      text_ = written.text;
      return Status();
    case Kind::kDtype:
    case Kind::kLayout:
    case Kind::kMemoryFormat:
      if (written.form != Form::kName) break;
      return FitName(libtorch, written, who);
    case Kind::kDevice: {
      if (written.form != Form::kDevice) break;
      constexpr Value kNoIndex = 0xffffffff;
      return constant(static_cast<Value>(static_cast<std::uint32_t>(device_.type)) << 32U |
                      (device_.is_gpu ? static_cast<Value>(device_.index) : kNoIndex));
    }
    case Kind::kGenerator: break;
  }
  return Wrong(who, type, Describe(written));
}

Status Slot::FitName(const Libtorch& libtorch, const Written& written, const std::string& who) {
  const char* const group = kind_ == Kind::kDtype    ? "dtype"
                            : kind_ == Kind::kLayout ? "layout"
                                                     : "memory_format";
  const std::int32_t number = libtorch.FindNumber(group, written.text);
  if (number < 0) {
    return Status::Model(who + ": " + libtorch.Name() + " has no " + group + " torch." +
                         Readable(written.text.substr(0, 60)));
  }
  constant_ = static_cast<Value>(static_cast<std::uint32_t>(number));
  return Status();
}

bool Slot::IsComplex() const {
  return is_complex_ || std::any_of(items_.begin(), items_.end(),
                                    [](const Slot& item) { return item.IsComplex(); });
}

bool Slot::IsScalar() const {
  if (form_ == SlotForm::kList) {
    return std::any_of(items_.begin(), items_.end(),
                       [](const Slot& item) { return item.IsScalar(); });
  }
  return form_ == SlotForm::kScalar;
}

void Slot::MakeTensorOfScalar(bool must_move) {
  if (form_ != SlotForm::kScalar) return;
  form_ = SlotForm::kScalarTensor;
  must_move_ = must_move;
}

void Slot::KeepOnHost() {
  is_kept_on_host_ = true;
  for (Slot& item : items_) item.KeepOnHost();
}

void Slot::AddReadInputs(std::vector<bool>* inputs) const {
  const bool is_number = form_ == SlotForm::kNumber || form_ == SlotForm::kNumbers;
  const bool is_kept = form_ == SlotForm::kTensor && is_kept_on_host_;
  if (is_number || is_kept || is_number_of_) (*inputs)[place_] = true;
  for (const Slot& item : items_) item.AddReadInputs(inputs);
}

bool Slot::LimitSize() {
  is_size_ = kind_ == Kind::kInt;
  bool is_good =
      !is_size_ || form_ != SlotForm::kConstant || IsSmall(static_cast<std::int64_t>(constant_));
  for (Slot& item : items_) is_good &= item.LimitSize();
  return is_good;
}

Status Slot::MakeValue(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                       std::span<const InputTensor> inputs, const std::string& who,
                       Value* value) const {
  Value content = 0;
  Status status = MakeContent(libtorch, dtypes, inputs, who, &content);
  if (!status.ok()) return status;
  *value = is_boxed_ ? libtorch.NewBox(content) : content;
  return Status();
}

void Slot::Free(const Libtorch& libtorch, Value value) const {
  if (!is_boxed_) return FreeContent(libtorch, value);
  FreeContent(libtorch, *FromValue<const Value*>(value));
  libtorch.DeleteBox(value);
}

Status Slot::MakeContent(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                         std::span<const InputTensor> inputs, const std::string& who,
                         Value* value) const {
  switch (form_) {
    case SlotForm::kConstant: *value = constant_; return Status();
    case SlotForm::kTensor: return MakeTensor(libtorch, dtypes, inputs[place_], who, value);
    case SlotForm::kList: return MakeList(libtorch, dtypes, inputs, who, value);
    case SlotForm::kNumbers: return MakeNumbers(libtorch, inputs[place_], who, value);
    case SlotForm::kText: {
      String string = nullptr;
      if (libtorch.new_string_handle(text_.data(), text_.size(), &string) != 0) {
        return Status::Error(who + ": " + libtorch.TakeErrorText());
      }
      *value = ToValue(string);
      return Status();
    }
    case SlotForm::kScalarTensor: return MakeScalarTensor(libtorch, inputs, who, value);
    case SlotForm::kScalar:
      if (!is_number_of_) {
        *value = written_ == Form::kFloat
                     ? constant_
                     : FromNumber(static_cast<double>(static_cast<std::int64_t>(constant_)));
        return Status();
      }
      break;
    case SlotForm::kNumber: break;
  }
  const InputTensor& input = inputs[place_];
  const std::optional<Value> number =
      Count(input.shape) == 1 ? ReadNumber(input, 0, kind_, is_size_) : std::nullopt;
  if (!number) {
    return Status::Model(who + ": input %" + std::to_string(place_) + " must hold one " +
                         std::string(NameOf(kind_)) + (is_size_ ? " below 2^31" : "") +
                         ", but is " + ElementTypeName(input.element_type) + "[" +
                         DimensionsText(input.shape) + "]");
  }
  *value = *number;
  return Status();
}

Status Slot::MakeTensor(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                        const InputTensor& input, const std::string& who, Value* value) const {
  const std::int32_t dtype = dtypes.NumberOf(input.element_type, is_complex_);
  std::span<const std::int64_t> shape = input.shape;
  if (dtype < 0 || (is_complex_ && (shape.empty() || shape.back() != 2))) {
    return Status::Model(who + ": input %" + std::to_string(place_) + " is " +
                         ElementTypeName(input.element_type) + "[" + DimensionsText(shape) + "], " +
                         (is_complex_ ? "but a complex tensor must be float16, float32 or float64 "
                                        "with a last dimension of size 2"
                                      : "a type that " + libtorch.Name() + " does not have"));
  }
  if (is_complex_) shape = shape.first(shape.size() - 1);
  std::array<std::int64_t, kUsualRank> usual;
  std::vector<std::int64_t> unusual;
  if (shape.size() > kUsualRank) unusual.resize(shape.size());
  std::int64_t* const strides = unusual.empty() ? usual.data() : unusual.data();
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    if (shape[i] > 1) stride *= shape[i];
  }
  const bool is_on_gpu = device_.is_gpu && !is_kept_on_host_;
  void* data = is_kept_on_host_ ? input.readable() : input.data;
  if (is_on_gpu && Count(shape) == 0) data = nullptr;  // the runtime's pointer is not a GPU address
  Tensor tensor = nullptr;
  Failure failure = libtorch.create_tensor_from_blob(
      data, static_cast<std::int64_t>(shape.size()), shape.data(), strides, 0, dtype,
      is_on_gpu ? device_.type : libtorch.cpu, is_on_gpu ? device_.index : 0, &tensor);
  if (failure == 0 && is_copied_) {
    Tensor copy = nullptr;
    failure = libtorch.clone(tensor, &copy);
    (void)libtorch.delete_tensor_object(tensor);
    tensor = copy;
  }
  if (failure != 0) return Status::Error(who + ": " + libtorch.TakeErrorText());
  *value = ToValue(tensor);
  return Status();
}

Status Slot::MakeList(const Libtorch& libtorch, const DtypeNumbers& dtypes,
                      std::span<const InputTensor> inputs, const std::string& who,
                      Value* value) const {
  List list = nullptr;
  if (libtorch.new_list_reserve_size(items_.size(), &list) != 0) {
    return Status::Error(who + ": " + libtorch.TakeErrorText());
  }
  Status status;
  for (const Slot& item : items_) {
    Value element = 0;
    status = item.MakeValue(libtorch, dtypes, inputs, who, &element);
    if (!status.ok()) break;
    (void)libtorch.list_push_back(list, element);  // cannot fail: there is room
  }
  *value = ToValue(list);
  if (!status.ok()) FreeContent(libtorch, *value);
  return status;
}

Status Slot::MakeNumbers(const Libtorch& libtorch, const InputTensor& input, const std::string& who,
                         Value* value) const {
  List list = nullptr;
  const std::size_t count = Count(input.shape);
  if (libtorch.new_list_reserve_size(count, &list) != 0) {
    return Status::Error(who + ": " + libtorch.TakeErrorText());
  }
  bool is_good = input.shape.size() == 1;
  for (std::size_t i = 0; is_good && i < count; ++i) {
    const std::optional<Value> number = ReadNumber(input, i, kind_, is_size_);
    is_good = number.has_value();
    if (is_good) (void)libtorch.list_push_back(list, *number);
  }
  *value = ToValue(list);
  if (is_good) return Status();
  FreeContent(libtorch, *value);
  return Status::Model(who + ": input %" + std::to_string(place_) + " must hold a list of " +
                       std::string(NameOf(kind_)) + (is_size_ ? " below 2^31" : "") + ", but is " +
                       ElementTypeName(input.element_type) + "[" + DimensionsText(input.shape) +
                       "]");
}

void Slot::FreeContent(const Libtorch& libtorch, Value value) const {
  switch (form_) {
    case SlotForm::kTensor:
    case SlotForm::kScalarTensor:
      (void)libtorch.delete_tensor_object(FromValue<Tensor>(value));
      return;
    case SlotForm::kText: (void)libtorch.delete_string(FromValue<String>(value)); return;
    case SlotForm::kNumbers: (void)libtorch.delete_list(FromValue<List>(value)); return;
    case SlotForm::kList: {
      const auto list = FromValue<List>(value);
      std::size_t made = 0;
      (void)libtorch.list_size(list, &made);
      for (std::size_t i = 0; i < made; ++i) {
        Value element = 0;
        (void)libtorch.list_get_item(list, i, &element);
        items_[i].Free(libtorch, element);
      }
      (void)libtorch.delete_list(list);
      return;
    }
    case SlotForm::kConstant:
    case SlotForm::kScalar:
    case SlotForm::kNumber: return;
  }
}

}  // namespace opgraft::aten
