// Finds out whether the runtime has a kernel for a node and its types: no function of the runtime
// tells, so it is given models of one node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/node_parts.h"
#include "model/type_inference.h"

namespace opgraft::model {

class KernelProbe {
 public:
  virtual ~KernelProbe() = default;

  /// Whether the runtime makes a session of `model`, which has one node and no weights. Nothing is
  /// run.
  virtual bool Loads(std::string_view model) = 0;

  /// The runtime's version and the session's providers, if answers under the same conditions are
  /// the same; "" if the conditions cannot be told.
  virtual std::string Conditions() const = 0;
};

/// Asks a probe, and remembers the answers in this process.
class Kernels {
 public:
  /// `opset` and `ir_version` are those of the model for the runtime.
  Kernels(KernelProbe& probe, std::int64_t opset, std::int64_t ir_version)
      : probe_(probe), conditions_(probe.Conditions()), opset_(opset), ir_version_(ir_version) {}

  /// Whether there is a kernel for the node if its values have these types. Also true if that
  /// cannot be asked: the node holds a graph or much data, or too much was asked already.
  bool Has(const NodeParts& node, const std::vector<std::string_view>& attributes,
           const std::vector<ValueType>& inputs, const std::vector<ValueType>& outputs);

 private:
  KernelProbe& probe_;
  const std::string conditions_;
  const std::int64_t opset_;
  const std::int64_t ir_version_;
  std::size_t asked_ = 0;
  std::map<std::string, bool> answers_;  // if the conditions cannot be told
};

/// Writes the model of one node. `inputs` and `outputs` have the types of its values; a value whose
/// name is empty is absent.
std::string WriteProbe(const NodeParts& node, const std::vector<std::string_view>& attributes,
                       const std::vector<ValueType>& inputs, const std::vector<ValueType>& outputs,
                       std::int64_t opset, std::int64_t ir_version);

}  // namespace opgraft::model
