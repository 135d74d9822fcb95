// Reads the torch calls that a pack declares, if its version of the contract has them.
#include "python/module/torch_calls.h"

#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

#include "core/packs.h"
#include "core/platform.h"
#include "model/onnx_tags.h"
#include "opgraft/c_api.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

namespace tag = model::tag;

/// The first version of the contract that has the calls.
constexpr std::uint32_t kFirstVersion = 3;

nb::object ToPython(const OpgraftAttribute& value) {
  switch (value.kind) {
    case tag::kFloat: return nb::float_(value.floats[0]);
    case tag::kInt: return nb::int_(value.integers[0]);
    case tag::kString: return nb::str(value.texts[0].data, value.texts[0].size);
    default: return nb::none();
  }
}

nb::list ToPython(const OpgraftOperator& declaration) {
  nb::list calls;
  for (std::size_t i = 0; i < declaration.torch_call_count; ++i) {
    const OpgraftTorchCall& call = declaration.torch_calls[i];
    nb::list arguments;
    for (std::size_t j = 0; j < call.argument_count; ++j) {
      const OpgraftTorchArgument& one = call.arguments[j];
      arguments.append(nb::make_tuple(nb::str(one.name),
                                      nb::str(one.argument != nullptr ? one.argument : ""),
                                      ToPython(one.value)));
    }
    nb::list left;
    for (std::size_t j = 0; j < call.left_to_torch_count; ++j) left.append(call.left_to_torch[j]);
    calls.append(nb::make_tuple(nb::str(call.name), arguments, left));
  }
  return calls;
}

/// Returns the torch calls of an operator of the pack at `path`, which has been read before, or
/// None if the pack's version of the contract is too old.
nb::object TorchCalls(const nb::bytes& path, const std::string& domain, const std::string& name,
                      std::int32_t version) {
  void* library = nullptr;
  const std::string file(path.c_str(), path.size());
  if (!platform::LoadLibrary(file, /*is_global=*/false, &library).ok()) return nb::none();
  void* const symbol = platform::FindSymbol(library, OPGRAFT_PACK_SYMBOL);
  if (symbol == nullptr) return nb::none();
  const OpgraftPack* const pack = reinterpret_cast<const OpgraftPack* (*)()>(symbol)();
  if (pack == nullptr || pack->version < kFirstVersion) return nb::none();
  for (std::size_t i = 0; i < pack->operator_count; ++i) {
    const OpgraftOperator& one = *pack->operators[i];
    const std::string_view own = one.domain;
    const bool is_of_domain = own == domain || (domain.empty() && own == "ai.onnx");
    if (is_of_domain && one.name == name && one.since_version == version) return ToPython(one);
  }
  return nb::none();
}

}  // namespace

void DefineTorchCalls(nb::module_& module) {
  module.def("torch_calls", &TorchCalls, nb::arg("pack"), nb::arg("domain"), nb::arg("name"),
             nb::arg("version"));
}

}  // namespace opgraft::pyop
