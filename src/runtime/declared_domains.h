// The domains of operators declared in Python, for plain sessions of models that are not prepared.
#pragma once

#include <memory>
#include <vector>

#include "core/schema.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

using DeclaredSchemas = std::vector<std::shared_ptr<const Schema>>;

/// Registers the operators that `list` returns with `options`, under their own names. Those that a
/// plain session cannot run are left out: on GPUs, in the runtime's own domains, with inputs that
/// may be absent or many, with outputs whose type depends on an input, or with tensors as
/// attributes. Calling it again with the same operators has no effect; with others it is an error,
/// because a runtime cannot undo a registration. opgraft._pyop calls it for ONNX Runtime.
__attribute__((visibility("default"))) OrtStatus* RegisterDeclared(const OrtApiBase* base,
                                                                   OrtSessionOptions* options,
                                                                   DeclaredSchemas (*list)());

}  // namespace opgraft::ort
