// Builds the arguments by the schema, calls the dispatcher, stores the results.
#include "aten/call.h"

#include <algorithm>
#include <bit>

#include "aten/gpu_rules.h"
#include "aten/results.h"
#include "base/text.h"

namespace opgraft::aten {
namespace {

/// More than the arguments of any operator. Arguments that a newer libtorch has added, and that our
/// schema does not know, read as zeros: none, 0 or false.
constexpr std::size_t kStack = 64;

/// The version of libtorch whose schemas operators.inc holds.
constexpr std::uint64_t kSchemaVersion = (std::uint64_t{2} << 56U) | (std::uint64_t{13} << 48U);

/// Switches gradients off for the calls here, whatever mode the thread is in.
class NoGradients {
 public:
  explicit NoGradients(const Libtorch& libtorch)
      : libtorch_(libtorch), was_enabled_(libtorch.grad_mode_is_enabled()) {
    if (was_enabled_) libtorch_.grad_mode_set_enabled(false);
  }
  NoGradients(const NoGradients&) = delete;
  NoGradients& operator=(const NoGradients&) = delete;
  ~NoGradients() {
    if (was_enabled_) libtorch_.grad_mode_set_enabled(true);
  }

 private:
  const Libtorch& libtorch_;
  const bool was_enabled_;
};

Device DeviceOf(const Libtorch& libtorch, const Gpu* gpu) {
  if (gpu == nullptr) return {libtorch.cpu, 0, false};
  return {gpu->part->cuda, gpu->index, true};
}

/// Whether libtorch's message means that the operator has no kernel for CUDA, or none for this
/// element type.
bool SaysNoKernel(const std::string& why) {
  return why.find("Could not run 'aten::") != why.npos ||
         why.find("not implemented for '") != why.npos ||
         why.find("requires compiling PyTorch with") != why.npos;
}

/// Marks the inputs that an argument takes as tensors.
void AddTensors(const Written& written, std::vector<bool>* inputs) {
  if (written.form == Form::kTensor || written.form == Form::kComplexTensor) {
    (*inputs)[static_cast<std::size_t>(written.integer)] = true;
  }
  for (const Written& item : written.items) AddTensors(item, inputs);
}

/// Frees the results of a call.
class Results {
 public:
  Results(const Libtorch& libtorch, const std::vector<WrittenResult>& declared, const Value* stack)
      : libtorch_(libtorch), declared_(declared), stack_(stack) {}
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() {
    for (std::size_t i = 0; i < declared_.size(); ++i) {
      if (declared_[i].form == WrittenResult::Form::kList) {
        FreeList(FromValue<List>(stack_[i]));
      } else if (IsTensor(declared_[i])) {
        (void)libtorch_.delete_tensor_object(FromValue<Tensor>(stack_[i]));
      }
    }
  }

  static bool IsTensor(const WrittenResult& declared) {
    return declared.form == WrittenResult::Form::kTensor ||
           declared.form == WrittenResult::Form::kNull;
  }

 private:
  void FreeList(List list) const {
    std::size_t size = 0;
    (void)libtorch_.list_size(list, &size);
    for (std::size_t i = 0; i < size; ++i) {
      Value tensor = 0;
      (void)libtorch_.list_get_item(list, i, &tensor);
      (void)libtorch_.delete_tensor_object(FromValue<Tensor>(tensor));
    }
    (void)libtorch_.delete_list(list);
  }

  const Libtorch& libtorch_;
  const std::vector<WrittenResult>& declared_;
  const Value* const stack_;
};

/// Whether a result of the schema has the form that the node declares.
bool Fits(const Type& type, WrittenResult::Form form) {
  switch (form) {
    case WrittenResult::Form::kTensor:
    case WrittenResult::Form::kNull: return type.kind == Kind::kTensor && !type.is_list;
    case WrittenResult::Form::kList: return type.kind == Kind::kTensor && type.is_list;
    case WrittenResult::Form::kInt: return type.kind == Kind::kInt && !type.is_list;
    case WrittenResult::Form::kFloat: return type.kind == Kind::kFloat && !type.is_list;
    case WrittenResult::Form::kBool: return type.kind == Kind::kBool && !type.is_list;
  }
  return false;
}

}  // namespace

std::string NodeText::Who() const {
  const std::string name =
      operator_name.find("::") == std::string::npos ? "aten::" + operator_name : operator_name;
  return "node '" + ReadableName(node) + "', operator " +
         ReadableName(name + (overload.empty() ? "" : "." + overload));
}

Status FindOperator(const NodeText& text, Operator* found) {
  const std::string_view name = WithoutNamespace(text.operator_name);
  if (name.empty()) {
    return Status::Model(text.Who() +
                         ": ATen nodes run only operators of the namespace aten. Fix: write it as "
                         "an operator of your own (@opgraft.op), or export the model with "
                         "operators of aten");
  }
  std::vector<Operator> overloads = FindOperators(name);
  for (Operator& one : overloads) {
    if (one.schema.overload != text.overload) continue;
    *found = std::move(one);
    return Status();
  }
  std::string others;
  for (const Operator& one : overloads) {
    others += (others.empty() ? "" : ", ") + ("'" + std::string(one.schema.overload) + "'");
  }
  return Status::Model(text.Who() +
                       (overloads.empty()
                            ? ": there is no such operator, or it writes to its arguments or takes "
                              "arguments that a node cannot express. Fix: export the model again "
                              "with this Opgraft, or write the operator yourself (@opgraft.op)"
                            : ": it has no such overload; its overloads are " + others));
}

Call::Call(const Libtorch& libtorch, const Gpu* gpu, const NodeText& text)
    : libtorch_(libtorch),
      cuda_(gpu != nullptr ? gpu->part : nullptr),
      device_(DeviceOf(libtorch, gpu)),
      dtypes_(libtorch),
      who_(text.Who()) {}

Status Call::Make(const Libtorch& libtorch, const Gpu* gpu, const NodeText& text,
                  const Operator& op, std::size_t inputs, std::size_t outputs,
                  std::unique_ptr<const Call>* call) {
  std::unique_ptr<Call> made(new Call(libtorch, gpu, text));
  made->name_ = "aten::" + std::string(op.schema.name);
  made->overload_ = op.schema.overload;
  made->keeps_first_ = op.is_uninitialized && op.schema.name.starts_with("resize");
  made->is_uninitialized_ = op.is_uninitialized;
  made->may_be_lazy_ = op.schema.name == "_neg_view";
  made->guard_ = gpu != nullptr ? FindGpuRule(op.schema).guard : FindGuard(op.schema.name);
  Status status = made->ReadArguments(text, op, inputs);
  if (status.ok()) status = made->ReadOutputs(text, op, outputs);
  if (status.ok()) *call = std::move(made);
  return status;
}

Status Call::ReadArguments(const NodeText& text, const Operator& op, std::size_t inputs) {
  std::vector<WrittenArgument> arguments;
  Status status = aten::ReadArguments(text.arguments, who_, &arguments);
  if (!status.ok()) return status;
  const std::vector<Parameter>& parameters = op.schema.parameters;
  std::vector<const Written*> given(parameters.size(), nullptr);
  const bool has_tensors =
      std::any_of(parameters.begin(), parameters.end(),
                  [](const Parameter& one) { return one.type.kind == Kind::kTensor; });
  const GpuRule rule = FindGpuRule(op.schema);
  read_inputs_.resize(inputs);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const WrittenArgument& argument = arguments[i];
    std::size_t place = i;
    if (!argument.name.empty()) {
      const auto found =
          std::find_if(parameters.begin(), parameters.end(),
                       [&](const Parameter& one) { return one.name == argument.name; });
      place = static_cast<std::size_t>(found - parameters.begin());
    }
    if (place >= parameters.size() || given[place] != nullptr) {
      const bool is_twice = place < parameters.size();
      return Status::Model(who_ + ": " +
                           (argument.name.empty()
                                ? "it takes " + std::to_string(parameters.size()) +
                                      " arguments, the node has " + std::to_string(arguments.size())
                            : is_twice ? "its argument '" + argument.name + "' is given twice"
                                       : "it has no argument '" + argument.name + "'"));
    }
    given[place] = &argument.value;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    slot_names_.push_back(who_ + ", argument '" + std::string(parameter.name) + "'");
    Written standard;
    if (given[i] == nullptr) {
      if (parameter.default_text.empty()) {
        return Status::Model(slot_names_.back() + " is missing in the node");
      }
      status = ReadWritten(parameter.default_text, slot_names_.back(), &standard);
      if (!status.ok()) return status;
    }
    Written written = given[i] != nullptr ? *given[i] : standard;
    if (device_.is_gpu && parameter.type.kind == Kind::kDevice && !has_tensors) {
      written.form = Form::kDevice;  // without tensors to go by, libtorch would take the CPU
    }
    Slot& slot = slots_.emplace_back();
    status =
        Slot::Make(libtorch_, device_, parameter.type, written, inputs, slot_names_.back(), &slot);
    if (!status.ok()) return status;
    if (device_.is_gpu && IsOnHost(op.schema, parameter.name)) slot.KeepOnHost();
    slot.AddReadInputs(&read_inputs_);
    if (std::find(rule.read.begin(), rule.read.end(), parameter.name) != rule.read.end()) {
      AddTensors(written, &read_inputs_);
    }
    // Normalization in training mode writes to its statistics, though the schema does not say so.
    if (parameter.name.starts_with("running_")) slot.Copy();
    may_be_lazy_ |= slot.IsComplex();
    takes_text_ |= written.form == Form::kText;
    if (IsSize(parameter.name) && !slot.LimitSize()) {
      return Status::Model(slot_names_.back() + ": expected a number below 2^31");
    }
    if (parameter.type.kind == Kind::kInt && parameter.type.is_list && !IsLong(parameter.name)) {
      if (written.items.size() > kMostDimensions) {
        return Status::Model(slot_names_.back() + ": expected at most " +
                             std::to_string(kMostDimensions) + " numbers, got " +
                             std::to_string(written.items.size()));
      }
      if (written.form == Form::kNumbersOf) short_lists_.push_back(i);
    }
    if (guard_ == nullptr) continue;
    guarded_names_.emplace_back(parameter.name);
    guarded_values_.push_back(std::move(written));
  }
  return PlaceScalars(op);
}

Status Call::PlaceScalars(const Operator& op) {
  const auto scalar =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.IsScalar(); });
  if (scalar == slots_.end()) return Status();
  const std::optional<std::string> sibling = FindTensorOverload(op.schema);
  if (sibling) {
    overload_ = *sibling;
    const bool must_move = device_.is_gpu && !TakesNumbersOfHost(op.schema.name);
    for (Slot& slot : slots_) slot.MakeTensorOfScalar(must_move);
    return Status();
  }
  scalar_function_ = FindScalarFunction(libtorch_, cuda_, op.schema);
  if (scalar_function_.function != nullptr) return Status();
  return Status::Model(slot_names_[static_cast<std::size_t>(scalar - slots_.begin())] +
                       " is a Scalar, which " + libtorch_.Name() +
                       "'s C interface does not take for this operator. Fix: express it by other "
                       "operators, or write it as an operator of your own (@opgraft.op)");
}

Status Call::ReadOutputs(const NodeText& text, const Operator& op, std::size_t outputs) {
  Status status = ReadResults(text.outputs, who_, &results_);
  if (!status.ok()) return status;
  const std::vector<Result>& given = op.schema.results;
  bool fits = given.size() == results_.size();
  for (std::size_t i = 0; fits && i < given.size(); ++i) {
    fits = Fits(given[i].type, results_[i].form);
  }
  if (!fits) {
    std::string returned;
    for (const Result& one : given) returned += (returned.empty() ? "" : ", ") + one.type.Text();
    return Status::Model(who_ + ": it returns (" + returned +
                         "), but the node's attribute 'results' says " +
                         Readable(text.outputs.substr(0, 200)));
  }
  node_outputs_ = OutputsOf(results_);
  for (std::size_t i = 0; i < node_outputs_.size(); ++i) {
    output_names_.push_back(who_ + ": result " + std::to_string(i));
  }
  if (outputs > node_outputs_.size()) {
    return Status::Model(who_ + ": the node has " + std::to_string(outputs) +
                         " outputs, but its attribute 'results' describes " +
                         std::to_string(node_outputs_.size()));
  }
  return Status();
}

Status Call::Failed(const std::string& why, bool* lacks_kernel) const {
  if (!device_.is_gpu) return Status::Error(who_ + ": " + why);
  const bool is_missing = libtorch_.SaysWhy() && SaysNoKernel(why);
  if (lacks_kernel != nullptr) *lacks_kernel = is_missing;
  return Status::Error(who_ + ", on the GPU: " + why +
                       (libtorch_.SaysWhy()
                            ? ""
                            : ". Fix: if there is no kernel for CUDA, make the session without "
                              "OpgraftCUDA, or use torch 2.13 or newer"));
}

Status Call::Invoke(std::span<const InputTensor> inputs, Value* stack, bool* lacks_kernel) const {
  Status status;
  std::size_t made = 0;
  for (; made < slots_.size() && status.ok(); ++made) {
    status = slots_[made].MakeValue(libtorch_, dtypes_, inputs, slot_names_[made], &stack[made]);
  }
  const auto free = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) slots_[i].Free(libtorch_, stack[i]);
  };
  if (!status.ok()) {
    free(made - 1);
    return status;
  }
  if (scalar_function_.function != nullptr) {
    const NoGradients no_gradients(libtorch_);
    Tensor result = nullptr;
    const Failure failure =
        scalar_function_.call(libtorch_, scalar_function_.function, stack, &result);
    free(slots_.size());  // unlike the dispatcher, such a function takes over nothing
    if (failure != 0) return Failed(libtorch_.TakeErrorText(), lacks_kernel);
    stack[0] = ToValue(result);
    return Status();
  }
  Value arguments[kStack];
  std::memcpy(arguments, stack, sizeof(arguments));
  const NoGradients no_gradients(libtorch_);
  const Failure failure =
      libtorch_.call_dispatcher(name_.c_str(), overload_.c_str(), stack, kSchemaVersion);
  if (failure == 0) return Status();
  const std::string why = libtorch_.TakeErrorText();
  if (why.starts_with("Could not find schema for")) {
    // The dispatcher has not looked at the arguments, so that we still own them. But operators
    // repeat text arguments in their errors, so that with one of these the message may have been
    // written by the model: then leaking memory is better than freeing it twice.
    if (!takes_text_) {
      std::memcpy(stack, arguments, sizeof(arguments));
      free(slots_.size());
    }
    return Status::Unavailable(who_ + ": " + libtorch_.Name() + " (" + libtorch_.path +
                               ") has no such operator. Fix: use another version of torch");
  }
  return Failed(why, lacks_kernel);
}

Status Call::CheckInputs(std::span<const InputTensor> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string wrong = CheckShape(inputs[i]);
    if (!wrong.empty()) {
      return Status::Error(who_ + ", input " + std::to_string(i) + ": " + wrong);
    }
  }
  for (const std::size_t slot : short_lists_) {
    const std::size_t count = Count(inputs[slots_[slot].place()].shape);
    if (count <= kMostDimensions) continue;
    return Status::Error(slot_names_[slot] + ": expected at most " +
                         std::to_string(kMostDimensions) + " numbers, got " +
                         std::to_string(count));
  }
  if (guard_ == nullptr) return Status();
  const bool is_list = results_.size() == 1 && results_[0].form == WrittenResult::Form::kList;
  const std::size_t parts = is_list ? results_[0].tensors.size() : 0;
  const std::string wrong = guard_(NamedArguments(guarded_names_, guarded_values_, inputs, parts));
  if (wrong.empty()) return Status();
  // The model declares the number of tensors, so that a wrong one is an error of the model, as in
  // Store.
  return is_list ? Status::Model(who_ + ": " + wrong) : Status::Error(who_ + ": " + wrong);
}

Status Call::Run(std::span<const InputTensor> inputs, Outputs& outputs, bool* lacks_kernel) const {
  if (Status status = CheckInputs(inputs); !status.ok()) return status;
  Value stack[kStack] = {};
  if (Status status = Invoke(inputs, stack, lacks_kernel); !status.ok()) return status;
  const Results results(libtorch_, results_, stack);
  Taking taking = {may_be_lazy_, is_uninitialized_, {}};
  if (keeps_first_) {
    const InputTensor& first = inputs[slots_[0].place()];
    const Dtype* const dtype = FindDtype(first.element_type, false);
    taking.shown = {static_cast<const std::byte*>(first.data),
                    Count(first.shape) * static_cast<std::size_t>(dtype->size)};
  }
  std::size_t index = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    Status status = Store(results_[i], stack[i], taking, outputs, &index);
    if (!status.ok()) return status;
  }
  return Status();
}

Status Call::Store(const WrittenResult& declared, Value value, const Taking& taking,
                   Outputs& outputs, std::size_t* index) const {
  const auto store_number = [&](const auto number) {
    void* data = nullptr;
    Status status = outputs.Allocate((*index)++, {}, &data);
    if (status.ok() && data != nullptr) status = outputs.Copy(data, &number, sizeof(number));
    return status;
  };
  const auto store_tensor = [&](Tensor tensor, const WrittenResult::Tensor& tensor_declared) {
    const std::size_t at = (*index)++;
    return StoreTensor(libtorch_, device_, dtypes_, tensor, tensor_declared, taking,
                       output_names_[at], at, outputs);
  };
  switch (declared.form) {
    case WrittenResult::Form::kNull: return Status();
    case WrittenResult::Form::kInt: return store_number(static_cast<std::int64_t>(value));
    case WrittenResult::Form::kFloat: return store_number(std::bit_cast<double>(value));
    case WrittenResult::Form::kBool: return store_number(value != 0);
    case WrittenResult::Form::kTensor:
      return store_tensor(FromValue<Tensor>(value), declared.tensors[0]);
    case WrittenResult::Form::kList: break;
  }
  const auto list = FromValue<List>(value);
  std::size_t size = 0;
  (void)libtorch_.list_size(list, &size);
  if (size != declared.tensors.size()) {
    return Status::Model(who_ + ": it returns a list of " + std::to_string(size) +
                         " tensors, but the node's attribute 'results' says " +
                         std::to_string(declared.tensors.size()));
  }
  for (std::size_t i = 0; i < size; ++i) {
    Value item = 0;
    (void)libtorch_.list_get_item(list, i, &item);
    Status status = store_tensor(FromValue<Tensor>(item), declared.tensors[i]);
    if (!status.ok()) return status;
  }
  return Status();
}

}  // namespace opgraft::aten
