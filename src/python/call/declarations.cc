// Keeps the schemas, which need no GIL; opgraft._declare._declare keeps the Python objects.
#include "python/call/declarations.h"

#include <nanobind/nanobind.h>

#include <map>
#include <mutex>
#include <utility>

#include "core/packs.h"
#include "python/call/arguments.h"
#include "python/call/failure.h"
#include "python/call/gil.h"
#include "python/call/shapes.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Schema>, std::less<>> schemas;
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;  // sessions may outlive every static object
  return *registry;
}

}  // namespace

Status Declare(std::shared_ptr<const Schema> schema) {
  if (const std::string pack = Packs::OfThisProcess().OwnerOf(schema->FullName()); !pack.empty()) {
    return Status::Error(schema->FullName() + " is declared by the pack '" + pack +
                         "' and by the Python module '" + schema->module +
                         "'; only one of them can have it");
  }
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.schemas[schema->FullName()] = std::move(schema);
  return Status();
}

std::shared_ptr<const Schema> FindDeclared(std::string_view full_name) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.schemas.find(full_name);
  return found != registry.schemas.end() ? found->second : nullptr;
}

std::vector<std::shared_ptr<const Schema>> AllDeclared() {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  std::vector<std::shared_ptr<const Schema>> all;
  for (const auto& [name, schema] : registry.schemas) all.push_back(schema);
  return all;
}

Status FindSchema(std::string_view who, std::string_view full_name, std::string_view module,
                  const Policy& policy, std::shared_ptr<const Schema>* schema) {
  *schema = FindDeclared(full_name);
  if (*schema != nullptr || module.empty()) return Status();
  if (module == "__main__") {
    return Status::Model(std::string(who) +
                         " was declared in '__main__' of the program that made the model, which is "
                         "not this program. Fix: declare it in a module of its own, and save the "
                         "model again");
  }
  if (!policy.Allows(module)) return policy.Refusal(who, module);
  if (Status status = ImportModule(std::string(module)); !status.ok()) {
    return Status(status.kind(), std::string(who) + ": " + status.message());
  }
  *schema = FindDeclared(full_name);
  if (*schema != nullptr) return Status();
  return Status::PyOp(std::string(who) + ": the module '" + std::string(module) +
                      "' does not (or no longer) declare it; expected @opgraft.op(\"" +
                      std::string(full_name) + "\") there");
}

Status ImportModule(const std::string& module) {
  const ScopedGil gil;
  if (nb::steal(PyImport_ImportModule(module.c_str())).is_valid()) return Status();
  // The exception is not kept: its text goes to the host directly, not through the runtime.
  return Failure(/*keep_frames=*/true).ToStatus("the import of '" + module + "'", false, module);
}

Status InferShapes(const Spec& spec, const Policy& policy, const std::vector<SymbolicShape>& inputs,
                   std::vector<SymbolicShape>* outputs) try {
  outputs->assign(spec.output_types.size(), std::nullopt);
  std::shared_ptr<const Schema> schema;
  Status status = FindSchema(spec.Who(), spec.operator_name, spec.module, policy, &schema);
  if (!status.ok() || !schema->has_shape_rule) return status;
  const ScopedGil gil;
  try {
    nb::dict attributes;
    if (status = ReadArguments(spec, &attributes); !status.ok()) return status;
    nb::list shapes;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_absent = !spec.input_places.empty() && spec.input_places[i] == kUnknown;
      shapes.append(is_absent ? nb::none() : ToPython(inputs[i]));
    }
    const nb::object inferred = nb::module_::import_("opgraft._declare._declare")
                                    .attr("infer")(spec.operator_name.c_str(), shapes, attributes,
                                                   spec.output_types.size());
    for (std::size_t i = 0; i < outputs->size() && i < nb::len(inferred); ++i) {
      (*outputs)[i] = ToShape(inferred[i]);
    }
    return Status();
  } catch (nb::python_error& error) {
    error.restore();
    return Failure(/*keep_frames=*/true).ToStatus(spec.Who() + ": its shape rule", true);
  }
} catch (const std::exception& exception) {
  return Status::Error(spec.Who() + ": " + exception.what());
}

}  // namespace opgraft::pyop
