// A host of packs without a runtime: operators on tensors in memory, and their shape rules alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/schema.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"

namespace opgraft {

/// By their names; those that are not there have their defaults.
using GivenAttributes = std::map<std::string, OpgraftAttribute, std::less<>>;

/// Where the outputs of a run go.
class OutputReceiver {
 public:
  virtual ~OutputReceiver() = default;
  /// Memory for a whole output; nullptr where there is none. Not for strings.
  virtual void* Allocate(std::size_t index, std::int32_t element_type,
                         std::span<const std::int64_t> shape) = 0;
  virtual void Store(std::size_t index, std::span<const std::int64_t> shape,
                     std::span<const OpgraftText> texts) = 0;
};

/// Calls `body(argument, i)` for each i below `total`, in any order, and returns when all are done.
using ParallelLoop = void (*)(std::size_t total, void (*body)(void*, std::size_t), void* argument);

/// In one thread.
void LoopInOrder(std::size_t total, void (*body)(void*, std::size_t), void* argument);

/// A kernel of a pack's operator, made for inputs of certain types, to be run any number of times.
/// Thread-safe once it is made.
class NativeKernel {
 public:
  /// An input that is absent has the type 0. Messages begin with the operator's name. `schema` must
  /// outlive the kernel, `attributes` need not.
  static Status Make(const Schema& schema, const std::vector<std::int64_t>& input_types,
                     std::size_t outputs, const GivenAttributes& attributes,
                     std::unique_ptr<NativeKernel>* made);

  NativeKernel(const NativeKernel&) = delete;
  NativeKernel& operator=(const NativeKernel&) = delete;
  ~NativeKernel() { kernel_.destroy(state_); }

  /// The inputs must be of the types that it was made for.
  Status Run(std::span<const OpgraftTensor> inputs, OutputReceiver& receiver,
             ParallelLoop loop = &LoopInOrder) const;

 private:
  NativeKernel(const Schema& schema, const OpgraftKernel& kernel, std::size_t outputs);

  const Schema& schema_;
  const OpgraftKernel& kernel_;
  const std::size_t outputs_;
  std::vector<std::int32_t> output_types_;
  void* state_ = nullptr;
};

/// Runs an operator of a pack once, on so many outputs of it; an input that is absent has no type.
/// Messages begin with the operator's name.
Status RunNative(const Schema& schema, std::span<const OpgraftTensor> inputs, std::size_t outputs,
                 const GivenAttributes& attributes, OutputReceiver& receiver);

/// What is known of a value before anything runs.
struct KnownValue {
  std::int32_t element_type = 0;  ///< 0 for an input that is absent, or an output not known
  SymbolicShape shape = std::nullopt;
  OpgraftTensor constant = {};  ///< no tensor where its elements are not known
};

/// Asks the shape rule. Outputs that it does not tell have at least their types.
Status InferNative(const Schema& schema, const std::vector<KnownValue>& inputs, std::size_t outputs,
                   const GivenAttributes& attributes, std::vector<KnownValue>* inferred);

}  // namespace opgraft
