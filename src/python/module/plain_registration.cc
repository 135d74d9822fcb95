// The function that ONNX Runtime calls if it is given this module as a custom operator library, as
// opgraft.extensions.get_library_path() has it.
#include "python/call/declarations.h"
#include "runtime/declared_domains.h"

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) {
  return opgraft::ort::RegisterDeclared(base, options, &opgraft::pyop::AllDeclared);
}
