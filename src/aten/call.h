// A call of an ATen operator with the arguments of a node: made once, executed in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aten/cuda_part.h"
#include "aten/encoding.h"
#include "aten/guards.h"
#include "aten/libtorch.h"
#include "aten/operators.h"
#include "aten/scalars.h"
#include "aten/slot.h"
#include "opgraft/status.h"

namespace opgraft::aten {

/// The attributes of an ATen node.
struct NodeText {
  std::string node;  ///< the name of the node
  std::string operator_name;
  std::string overload;
  std::string arguments;
  std::string outputs;

  /// The beginning of messages: "node 'x', operator aten::median.dim".
  std::string Who() const;
};

/// Receives the results of a run: the outputs of the node.
class Outputs {
 public:
  virtual ~Outputs() = default;
  /// Allocates the memory of output `index`; `data` is nullptr if the output is not needed.
  virtual Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) = 0;
  /// Copies into that memory. The caller may change or free the source afterwards.
  virtual Status Copy(void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    return Status();
  }
};

/// How the results of an operator are copied to the outputs.
struct Taking {
  /// The tensors may have a pending conjugation or negation, which libtorch must apply.
  bool may_be_lazy = false;
  /// Their memory is uninitialized and must not be seen: zeros are stored in its place.
  bool is_hidden = false;
  /// The bytes that a hidden result may show at its start.
  std::span<const std::byte> shown;
};

/// Finds the operator that a node names; returns a ModelError if there is none.
Status FindOperator(const NodeText& text, Operator* found);

/// Immutable once made: any number of threads may run it.
class Call {
 public:
  /// Returns a ModelError if the node does not match the operator. The library must outlive the
  /// call. `gpu`: the device to run on; nullptr for the CPU.
  static Status Make(const Libtorch& libtorch, const Gpu* gpu, const NodeText& text,
                     const Operator& op, std::size_t inputs, std::size_t outputs,
                     std::unique_ptr<const Call>* call);

  /// The types and shapes of the node's outputs, from its attribute 'results'.
  const std::vector<NodeOutput>& outputs() const { return node_outputs_; }

  /// For each input, whether its elements are read on the CPU: if it lies on a GPU, it needs a
  /// copy for that.
  const std::vector<bool>& read_inputs() const { return read_inputs_; }

  /// On a GPU, the run's stream must be libtorch's current one. `lacks_kernel` is then set to
  /// whether the error is known to mean that libtorch has no kernel for CUDA.
  Status Run(std::span<const InputTensor> inputs, Outputs& outputs,
             bool* lacks_kernel = nullptr) const;

 private:
  Call(const Libtorch& libtorch, const Gpu* gpu, const NodeText& text);

  Status ReadArguments(const NodeText& text, const Operator& op, std::size_t inputs);
  /// Finds another way to pass Scalars, which the dispatcher does not take.
  Status PlaceScalars(const Operator& op);
  Status ReadOutputs(const NodeText& text, const Operator& op, std::size_t outputs);
  Status Store(const WrittenResult& declared, Value value, const Taking& taking, Outputs& outputs,
               std::size_t* index) const;
  /// The checks that need no call of libtorch.
  Status CheckInputs(std::span<const InputTensor> inputs) const;
  Status Invoke(std::span<const InputTensor> inputs, Value* stack, bool* lacks_kernel) const;
  /// The error of a call that has just failed.
  Status Failed(const std::string& why, bool* lacks_kernel) const;

  const Libtorch& libtorch_;
  const CudaPart* const cuda_;  // nullptr on the CPU
  const Device device_;
  const DtypeNumbers dtypes_;
  const std::string who_;
  std::string name_;  // "aten::median"
  std::string overload_;
  std::vector<Slot> slots_;
  std::vector<std::string> slot_names_;  // what messages call the arguments
  ScalarFunction scalar_function_;       // if there is one, called instead of the dispatcher
  Guard guard_ = nullptr;
  std::vector<std::string> guarded_names_;  // for the guard, if there is one
  std::vector<Written> guarded_values_;
  std::vector<std::size_t> short_lists_;  // slots of lists of dimensions that come from inputs
  std::vector<bool> read_inputs_;
  std::vector<WrittenResult> results_;
  std::vector<NodeOutput> node_outputs_;
  std::vector<std::string> output_names_;  // what messages call them
  bool may_be_lazy_ = false;               // results may have a pending conjugation or negation
  bool takes_text_ = false;
  bool is_uninitialized_ = false;
  bool keeps_first_ = false;  // if uninitialized: the result begins with the elements of input 0
};

}  // namespace opgraft::aten
