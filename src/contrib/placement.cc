// Evaluates the memory types that were set with KernelDefBuilder.
#include "contrib/placement.h"

#include <algorithm>
#include <string>

#include "opgraft/contrib/status.h"
#include "opgraft/element.h"

namespace opgraft::internal {

std::vector<std::uint8_t> FindHostInputs(const onnxruntime::KernelDef& kernel,
                                         OperatorDefinition* definition) {
  std::vector<std::uint8_t> flags(definition->inputs.size(), 0);
  for (const int index : kernel.host_inputs) {
    const auto place = static_cast<std::size_t>(index);
    if (index < 0 || place >= flags.size()) {
      definition->problems.push_back(onnxruntime::MakeString("InputMemoryType names input ", index,
                                                             ", which the schema does not have"));
    } else if (definition->inputs[place].occurrence == OPGRAFT_VARIADIC) {
      definition->problems.push_back("InputMemoryType names input '" +
                                     definition->inputs[place].name +
                                     "', which is variadic: ONNX Runtime would keep only the first "
                                     "of its tensors in host memory");
    } else {
      flags[place] = 1;
    }
  }
  if (!kernel.host_outputs.empty()) {
    definition->problems.push_back(onnxruntime::MakeString(
        "OutputMemoryType has output ", kernel.host_outputs[0],
        " in host memory, but all outputs of a pack's kernel for CUDA are on the GPU"));
  }
  return flags;
}

bool HasStringsOnGpu(const OperatorDefinition& definition, const KernelDefinition& kernel) {
  const auto is_text = [&](const ParameterDefinition& parameter) {
    return kernel.type_numbers[parameter.type] == kElementType<std::string>;
  };
  for (std::size_t i = 0; i < definition.inputs.size(); ++i) {
    if (is_text(definition.inputs[i]) && !definition.IsOnHost(kernel, i)) return true;
  }
  return std::any_of(definition.outputs.begin(), definition.outputs.end(), is_text);
}

}  // namespace opgraft::internal
