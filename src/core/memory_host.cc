// Implements the tables of opgraft/c_api.h in plain memory.
#include "core/memory_host.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/element_type.h"
#include "base/pack_error.h"

namespace opgraft {
namespace {

constexpr std::size_t kAlignment = 64;  // enough for any instruction

Status FindAttribute(const GivenAttributes& attributes, const char* name, std::int32_t kind,
                     OpgraftAttribute* found) {
  *found = {};
  const auto given = attributes.find(name);
  if (given == attributes.end()) return Status();
  if (given->second.kind != kind) {
    return Status::Model("attribute '" + std::string(name) + "' has the kind number " +
                         std::to_string(given->second.kind) + ", expected " + std::to_string(kind));
  }
  *found = given->second;
  return Status();
}

class MemoryNode : public OpgraftNode {
 public:
  MemoryNode(const std::string& name, const std::vector<std::int64_t>& input_types,
             std::size_t outputs, const GivenAttributes& attributes)
      : OpgraftNode{&kTable},
        name_(name),
        input_types_(input_types),
        outputs_(outputs),
        attributes_(attributes) {}

  const PackErrors& errors() const { return errors_; }

 private:
  static MemoryNode& Self(OpgraftNode* self) { return *static_cast<MemoryNode*>(self); }
  static const OpgraftNodeTable kTable;

  const std::string& name_;
  const std::vector<std::int64_t>& input_types_;
  const std::size_t outputs_;
  const GivenAttributes& attributes_;
  PackErrors errors_;
};

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): it is constant-initialised
constinit const OpgraftNodeTable MemoryNode::kTable = {
    [](OpgraftNode* self, const OpgraftError* error) { Self(self).errors_.Report(*error); },
    [](OpgraftNode* self) { return OpgraftText{Self(self).name_.data(), Self(self).name_.size()}; },
    [](OpgraftNode* self) { return Self(self).input_types_.size(); },
    [](OpgraftNode* self) { return Self(self).outputs_; },
    [](OpgraftNode* self, std::size_t index, std::int32_t* type) {
      *type = static_cast<std::int32_t>(Self(self).input_types_[index]);
      return 0;
    },
    [](OpgraftNode* self, const char* name, std::int32_t kind, OpgraftAttribute* found) {
      return Self(self).errors_.Keep(FindAttribute(Self(self).attributes_, name, kind, found));
    },
    // A single run has no inputs that are the same in every run.
    [](OpgraftNode*, std::size_t, OpgraftTensor* tensor) {
      *tensor = {};
      return 0;
    }};

class MemoryCall : public OpgraftCall {
 public:
  MemoryCall(std::span<const OpgraftTensor> inputs, std::size_t outputs,
             const std::vector<std::int32_t>& output_types, OutputReceiver& receiver,
             ParallelLoop loop)
      : OpgraftCall{&kTable},
        inputs_(inputs),
        outputs_(outputs),
        output_types_(output_types),
        receiver_(receiver),
        loop_(loop) {}

  const PackErrors& errors() const { return errors_; }

 private:
  static MemoryCall& Self(OpgraftCall* self) { return *static_cast<MemoryCall*>(self); }

  int Output(std::size_t index, std::span<const std::int64_t> shape, OpgraftTensor* tensor) {
    *tensor = {};
    if (index >= outputs_) return 0;
    for (const std::int64_t size : shape) {
      if (size >= 0) continue;
      return errors_.Keep(Status::Error("output " + std::to_string(index) +
                                        " has the negative size " + std::to_string(size)));
    }
    const std::int32_t type = output_types_[std::min(index, output_types_.size() - 1)];
    void* const data = receiver_.Allocate(index, type, shape);
    if (data == nullptr) {
      return errors_.Keep(Status::Error("out of memory for output " + std::to_string(index)));
    }
    *tensor = {data, shape.data(), shape.size(), type};
    return 0;
  }

  int Scratch(std::size_t bytes, void** memory) {
    *memory = ::operator new(bytes, std::align_val_t(kAlignment), std::nothrow);
    if (*memory == nullptr) {
      return errors_.Keep(
          Status::Error("out of memory: cannot allocate " + std::to_string(bytes) + " bytes"));
    }
    scratch_.emplace_back(*memory);
    return 0;
  }

  static const OpgraftCallTable kTable;

  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, std::align_val_t(kAlignment)); }
  };

  const std::span<const OpgraftTensor> inputs_;
  const std::size_t outputs_;
  const std::vector<std::int32_t>& output_types_;
  OutputReceiver& receiver_;
  const ParallelLoop loop_;
  PackErrors errors_;
  std::vector<std::unique_ptr<void, Free>> scratch_;
};

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): it is constant-initialised
constinit const OpgraftCallTable MemoryCall::kTable = {
    [](OpgraftCall* self, const OpgraftError* error) { Self(self).errors_.Report(*error); },
    [](OpgraftCall* self, std::size_t index, OpgraftTensor* tensor) {
      *tensor = Self(self).inputs_[index];
      return 0;
    },
    [](OpgraftCall* self, std::size_t index, const std::int64_t* shape, std::size_t rank,
       OpgraftTensor* tensor) { return Self(self).Output(index, {shape, rank}, tensor); },
    [](OpgraftCall* self, std::size_t index, const std::int64_t* shape, std::size_t rank,
       const OpgraftText* texts) {
      if (index >= Self(self).outputs_) return 0;
      std::size_t elements = 1;
      for (std::size_t i = 0; i < rank; ++i) elements *= static_cast<std::size_t>(shape[i]);
      Self(self).receiver_.Store(index, {shape, rank}, {texts, elements});
      return 0;
    },
    [](OpgraftCall* self, std::size_t bytes, void** memory) {
      return Self(self).Scratch(bytes, memory);
    },
    [](OpgraftCall* self, std::size_t total, std::size_t, void (*body)(void*, std::size_t),
       void* argument) {
      Self(self).loop_(total, body, argument);
      return 0;
    },
    [](OpgraftCall*, std::int32_t, const OpgraftText*) { return 0; },
    nullptr};  // this host has no device

class MemoryInference : public OpgraftInference {
 public:
  MemoryInference(const std::vector<KnownValue>& inputs, std::size_t outputs,
                  const GivenAttributes& attributes, std::vector<KnownValue>* inferred)
      : OpgraftInference{&kTable},
        inputs_(inputs),
        outputs_(outputs),
        attributes_(attributes),
        inferred_(inferred),
        dimensions_(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const SymbolicShape& shape = inputs[i].shape;
      if (!shape) continue;
      for (const Dimension& dimension : *shape) {
        dimensions_[i].push_back({dimension.size, dimension.symbol.c_str()});
      }
    }
  }

  const PackErrors& errors() const { return errors_; }

 private:
  static MemoryInference& Self(OpgraftInference* self) {
    return *static_cast<MemoryInference*>(self);
  }

  void Set(std::size_t index, const OpgraftShape& shape) {
    if (index >= inferred_->size()) return;
    KnownValue& value = (*inferred_)[index];
    if (shape.element_type != 0) value.element_type = shape.element_type;
    if (shape.has_rank == 0) return;
    value.shape.emplace();
    for (std::size_t i = 0; i < shape.rank; ++i) {
      const OpgraftDimension& dimension = shape.dimensions[i];
      value.shape->push_back({dimension.size, dimension.symbol != nullptr ? dimension.symbol : ""});
    }
  }

  static const OpgraftInferenceTable kTable;

  const std::vector<KnownValue>& inputs_;
  const std::size_t outputs_;
  const GivenAttributes& attributes_;
  std::vector<KnownValue>* const inferred_;
  std::vector<std::vector<OpgraftDimension>> dimensions_;
  PackErrors errors_;
};

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): it is constant-initialised
constinit const OpgraftInferenceTable MemoryInference::kTable = {
    [](OpgraftInference* self, const OpgraftError* error) { Self(self).errors_.Report(*error); },
    [](OpgraftInference* self) { return Self(self).inputs_.size(); },
    [](OpgraftInference* self) { return Self(self).outputs_; },
    [](OpgraftInference* self, std::size_t index, OpgraftShape* shape) {
      const KnownValue& value = Self(self).inputs_[index];
      const std::vector<OpgraftDimension>& dimensions = Self(self).dimensions_[index];
      *shape = {value.element_type, value.shape ? 1 : 0, dimensions.size(), dimensions.data()};
      return 0;
    },
    [](OpgraftInference* self, const char* name, std::int32_t kind, OpgraftAttribute* found) {
      return Self(self).errors_.Keep(FindAttribute(Self(self).attributes_, name, kind, found));
    },
    [](OpgraftInference* self, std::size_t index, OpgraftTensor* tensor) {
      *tensor = Self(self).inputs_[index].constant;
      return 0;
    },
    [](OpgraftInference* self, std::size_t index, const OpgraftShape* shape) {
      Self(self).Set(index, *shape);
      return 0;
    }};

Status CheckCounts(const Schema& schema, const std::string& who, std::size_t inputs,
                   std::size_t outputs) {
  if (!Schema::TakesCount(schema.inputs, inputs)) {
    return Status::Model(who + ": expected " + Schema::CountText(schema.inputs, "input") +
                         ", got " + std::to_string(inputs));
  }
  if (!Schema::TakesCount(schema.outputs, outputs)) {
    return Status::Model(who + ": expected " + Schema::CountText(schema.outputs, "output") +
                         ", but " + std::to_string(outputs) + " are requested");
  }
  return Status();
}

/// Returns the element type of each type variable, taken from the inputs; 0 if no input has it.
std::vector<std::int32_t> BindTypes(const Schema& schema, const std::vector<std::int64_t>& types) {
  std::vector<std::int32_t> bound(schema.types.size(), 0);
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::int32_t& variable = bound[Schema::At(schema.inputs, i).type];
    if (variable == 0) variable = static_cast<std::int32_t>(types[i]);
  }
  return bound;
}

const OpgraftKernel* FindKernel(const OpgraftOperator& declaration, const char* device,
                                const std::vector<std::int32_t>& bound) {
  for (std::size_t i = 0; i < declaration.kernel_count; ++i) {
    const OpgraftKernel& kernel = *declaration.kernels[i];
    bool fits = std::strcmp(kernel.device, device) == 0;
    for (std::size_t j = 0; j < bound.size(); ++j) {
      fits &= kernel.types[j] == 0 || bound[j] == 0 || kernel.types[j] == bound[j];
    }
    if (fits) return &kernel;
  }
  return nullptr;
}

}  // namespace

void LoopInOrder(std::size_t total, void (*body)(void*, std::size_t), void* argument) {
  for (std::size_t i = 0; i < total; ++i) body(argument, i);
}

NativeKernel::NativeKernel(const Schema& schema, const OpgraftKernel& kernel, std::size_t outputs)
    : schema_(schema), kernel_(kernel), outputs_(outputs) {
  for (const Parameter& output : schema.outputs) output_types_.push_back(kernel.types[output.type]);
}

Status NativeKernel::Make(const Schema& schema, const std::vector<std::int64_t>& input_types,
                          std::size_t outputs, const GivenAttributes& attributes,
                          std::unique_ptr<NativeKernel>* made) {
  const std::string who = schema.FullName();
  Status status = CheckCounts(schema, who, input_types.size(), outputs);
  if (status.ok()) status = schema.CheckTypes(who, input_types, {});
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < input_types.size(); ++i) {
    const Parameter& parameter = Schema::At(schema.inputs, i);
    if (input_types[i] == 0 && parameter.occurrence != Occurrence::kOptional) {
      return Status::Model(who + ": input '" + parameter.name + "' is absent, but not optional");
    }
  }
  const std::vector<std::int32_t> bound = BindTypes(schema, input_types);
  const OpgraftOperator& declaration = *schema.native->declaration;
  const OpgraftKernel* const kernel = FindKernel(declaration, "cpu", bound);
  if (kernel == nullptr && FindKernel(declaration, "cuda", bound) != nullptr) {
    return Status::Unavailable(
        who +
        ": its only kernel for these types is for CUDA, but here it runs on the CPU. Fix: run it "
        "in a "
        "session with providers=[\"OpgraftCUDA\", \"CPUExecutionProvider\"], or add a kernel "
        "with .Cpu(...)");
  }
  if (kernel == nullptr) return Status::Model(who + ": it has no kernel for these types");
  MemoryNode node(schema.name, input_types, outputs, attributes);
  std::unique_ptr<NativeKernel> created(new NativeKernel(schema, *kernel, outputs));
  const int returned = kernel->create(kernel, &node, &created->state_);
  if (returned != 0) created->state_ = nullptr;
  status = node.errors().Outcome(returned, who);
  if (status.ok()) *made = std::move(created);
  return status;
}

Status NativeKernel::Run(std::span<const OpgraftTensor> inputs, OutputReceiver& receiver,
                         ParallelLoop loop) const {
  MemoryCall call(inputs, outputs_, output_types_, receiver, loop);
  const int returned = kernel_.compute(state_, &call);
  return call.errors().Outcome(returned, schema_.FullName());
}

Status RunNative(const Schema& schema, std::span<const OpgraftTensor> inputs, std::size_t outputs,
                 const GivenAttributes& attributes, OutputReceiver& receiver) {
  std::vector<std::int64_t> types;
  for (const OpgraftTensor& input : inputs) types.push_back(input.element_type);
  std::unique_ptr<NativeKernel> kernel;
  Status status = NativeKernel::Make(schema, types, outputs, attributes, &kernel);
  return status.ok() ? kernel->Run(inputs, receiver) : status;
}

Status InferNative(const Schema& schema, const std::vector<KnownValue>& inputs, std::size_t outputs,
                   const GivenAttributes& attributes, std::vector<KnownValue>* inferred) {
  const std::string who = schema.FullName();
  std::vector<std::int64_t> types;
  for (const KnownValue& input : inputs) types.push_back(input.element_type);
  Status status = CheckCounts(schema, who, inputs.size(), outputs);
  if (status.ok()) status = schema.CheckTypes(who, types, {});
  if (!status.ok()) return status;
  inferred->assign(outputs, KnownValue());
  for (std::size_t i = 0; i < outputs; ++i) {
    (*inferred)[i].element_type = static_cast<std::int32_t>(schema.OutputType(i, types));
  }
  const OpgraftOperator& declaration = *schema.native->declaration;
  if (declaration.infer == nullptr) return Status();
  MemoryInference inference(inputs, outputs, attributes, inferred);
  const int returned = declaration.infer(&declaration, &inference);
  return inference.errors().Outcome(returned, who);
}

}  // namespace opgraft
