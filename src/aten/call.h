// An operator of ATen with its arguments: made once, called in every run.
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

/// What a node of an ATen operator says.
struct NodeText {
  std::string node;  ///< its name
  std::string operator_name;
  std::string overload;
  std::string arguments;
  std::string outputs;

  /// "node 'x', operator aten::median.dim": what messages begin with.
  std::string Who() const;
};

/// Where the results of a run go: the outputs of the node.
class Outputs {
 public:
  virtual ~Outputs() = default;
  /// The memory for output `index`; nullptr where nobody wants it.
  virtual Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) = 0;
  /// Copies into that memory. What is given may be changed, or given back to libtorch, after it.
  virtual Status Copy(void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    return Status();
  }
};

/// How results of an operator are to be taken.
struct Taking {
  /// They may be tensors whose conjugation or negation is still to come, which libtorch must do.
  bool may_be_lazy = false;
  /// Their memory must not be seen: zeros are put in its place.
  bool is_hidden = false;
  /// What a hidden result may show at its start.
  std::span<const std::byte> shown;
};

/// Finds the operator that a node names. A ModelError where there is none such.
Status FindOperator(const NodeText& text, Operator* found);

/// Immutable once made: any number of threads may run it.
class Call {
 public:
  /// A ModelError where node and operator do not fit together. The library must outlive this.
  /// `gpu`: where it runs; nullptr for the CPU.
  static Status Make(const Libtorch& libtorch, const Gpu* gpu, const NodeText& text,
                     const Operator& op, std::size_t inputs, std::size_t outputs,
                     std::unique_ptr<const Call>* call);

  /// The types and shapes of the node's outputs, as it says.
  const std::vector<NodeOutput>& outputs() const { return node_outputs_; }

  /// Whether the host has to read each input: one on a GPU needs a copy for that.
  const std::vector<bool>& read_inputs() const { return read_inputs_; }

  /// On a GPU, to be called while the run's stream is libtorch's. `lacks_kernel` then says whether
  /// the error is known to be that libtorch has no kernel for CUDA.
  Status Run(std::span<const InputTensor> inputs, Outputs& outputs,
             bool* lacks_kernel = nullptr) const;

 private:
  Call(const Libtorch& libtorch, const Gpu* gpu, const NodeText& text);

  Status ReadArguments(const NodeText& text, const Operator& op, std::size_t inputs);
  /// Finds a way for Scalars, which the dispatcher does not take.
  Status PlaceScalars(const Operator& op);
  Status ReadOutputs(const NodeText& text, const Operator& op, std::size_t outputs);
  Status Store(const WrittenResult& said, Value value, const Taking& taking, Outputs& outputs,
               std::size_t* index) const;
  /// What can be said before libtorch is asked.
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
  ScalarFunction scalar_function_;       // called in the dispatcher's place, where it is there
  Guard guard_ = nullptr;
  std::vector<std::string> guarded_names_;  // for the guard, where there is one
  std::vector<Written> guarded_values_;
  std::vector<std::size_t> short_lists_;  // slots with lists of dimensions, which inputs hold
  std::vector<bool> read_inputs_;
  std::vector<WrittenResult> results_;
  std::vector<NodeOutput> node_outputs_;
  std::vector<std::string> output_names_;  // what messages call them
  bool may_be_lazy_ = false;  // results may have their conjugation or negation still to come
  bool takes_text_ = false;
  bool is_uninitialized_ = false;
  bool keeps_first_ = false;  // of those: what input 0 holds stays at the start of the result
};

}  // namespace opgraft::aten
