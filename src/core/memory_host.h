// A host of packs without a runtime: operators on tensors in memory, and their shape rules alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
