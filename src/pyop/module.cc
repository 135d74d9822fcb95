// The Python module opgraft._pyop: the bridge for libopgraft, and prepare() for the package.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aten/libtorch.h"
#include "aten/operators.h"
#include "core/packs.h"
#include "core/text.h"
#include "eager/kernel.h"
#include "model/pack_operators.h"
#include "model/prepare.h"
#include "model/prepare_file.h"
#include "ort/refusal.h"
#include "pyop/arrays.h"
#include "pyop/bridge.h"
#include "pyop/declarations.h"
#include "pyop/embedding.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/packs.h"
#include "pyop/python_operator.h"
#include "pyop/schemas.h"
#include "pyop/session_number.h"
#include "pyop/survey.h"
#include "pyop/torch_calls.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

constexpr Bridge kBridge = {kBridgeVersion, &PythonOperator::Create, &FindSchema, &InferShapes,
                            &ImportModule};

/// (bytes, or None where the original serves; has external data, needs a file, [(node, module,
/// class, operator)], {operator of a pack: the pack}, {operator of ATen: needs no allowance}).
nb::tuple ToPython(const model::PreparedModel& prepared) {
  nb::list operators;
  for (const Spec& spec : prepared.python_operators) {
    operators.append(nb::make_tuple(ReadableName(spec.node), ReadableName(spec.module),
                                    ReadableName(spec.class_name),
                                    ReadableName(spec.operator_name)));
  }
  const nb::object bytes =
      prepared.bytes.empty() ? nb::none()
                             : nb::object(nb::bytes(prepared.bytes.data(), prepared.bytes.size()));
  nb::dict native;
  for (const auto& [name, pack] : prepared.native_operators) {
    native[ReadableName(name).c_str()] = nb::steal(PyUnicode_DecodeFSDefault(pack.c_str()));
  }
  nb::dict aten;
  for (const std::string& name : prepared.aten_operators) {
    aten[ReadableName(name).c_str()] = aten::IsListed(name).value_or(false);
  }
  return nb::make_tuple(bytes, prepared.has_external_data, prepared.needs_file, operators, native,
                        aten);
}

/// Calls `prepare` with the operators that are declared here, and raises what it returns.
template <class Prepare>
void PrepareAllowed(const std::string& allow, const std::string& environment,
                    const std::string& prefer, const model::PreparedModel& prepared,
                    const Prepare& prepare) {
  const Packs& packs = Packs::OfThisProcess();
  Policy policy;
  model::Preference preference;
  Status status = Policy::Parse(allow, environment, &policy);
  if (status.ok()) status = model::Preference::Parse(prefer, packs, &preference);
  if (status.ok()) {
    WithoutGil([&] {
      DeclaredOperators declared(policy);
      model::PackOperators operators(packs, preference, declared);
      status = prepare(operators);
    });
  }
  if (!status.ok()) Raise(status, prepared.opset_limit);
}

nb::tuple Prepare(const nb::bytes& model, const std::string& origin, const std::string& runtime,
                  const std::string& allow, const std::string& environment,
                  const std::string& prefer) {
  model::PreparedModel prepared;
  const std::string_view bytes(model.c_str(), model.size());
  PrepareAllowed(allow, environment, prefer, prepared, [&](model::OperatorSource& operators) {
    return model::Prepare(bytes, origin, runtime, operators, &prepared);
  });
  return ToPython(prepared);
}

nb::tuple PrepareFile(const nb::bytes& path, const std::string& runtime, const std::string& allow,
                      const std::string& environment, const std::string& prefer, bool may_refer) {
  model::PreparedFile prepared;
  const std::string name(path.c_str(), path.size());
  PrepareAllowed(allow, environment, prefer, prepared.model, [&](model::OperatorSource& operators) {
    return model::PrepareFile(name, runtime, operators, may_refer, &prepared);
  });
  const nb::tuple model = ToPython(prepared.model);
  const nb::bytes folder(prepared.folder.data(), prepared.folder.size());
  if (!prepared.model.refers_to_original) return nb::make_tuple(model, folder, nb::none());
  prepared.model.bytes = std::string();  // Python has them
  return nb::make_tuple(model, folder, nb::cpp_function([file = std::move(prepared)] {
                          Status changed = file.CheckUnchanged();
                          if (!changed.ok()) Raise(changed);
                        }));
}

using Parameters = std::vector<std::tuple<std::string, int, std::size_t>>;

std::vector<Parameter> ToParameters(const Parameters& given) {
  std::vector<Parameter> parameters;
  for (const auto& [name, occurrence, type] : given) {
    parameters.push_back({name, static_cast<Occurrence>(occurrence), type});
  }
  return parameters;
}

/// opgraft._signature has seen to it that all is in order.
void DeclareOperator(const std::string& domain, const std::string& name, const std::string& module,
                     const Parameters& inputs, const Parameters& outputs,
                     const std::vector<std::tuple<std::vector<std::int64_t>, bool>>& types,
                     const std::vector<std::tuple<std::string, std::int64_t, bool>>& attributes,
                     bool has_shape_rule, bool on_gpu) {
  auto schema = std::make_shared<Schema>();
  schema->domain = domain;
  schema->name = name;
  schema->module = module;
  schema->inputs = ToParameters(inputs);
  schema->outputs = ToParameters(outputs);
  for (const auto& [allowed, is_tied] : types) schema->types.push_back({allowed, is_tied});
  for (const auto& [attribute, type, is_required] : attributes) {
    schema->attributes.push_back({attribute, type, is_required});
  }
  schema->has_shape_rule = has_shape_rule;
  schema->on_gpu = on_gpu;
  if (Status status = Declare(std::move(schema)); !status.ok()) Raise(status);
}

/// The kind and the message of the error for what the runtime said, or None where there is nothing
/// to add.
nb::object FindRefusal(const std::string& text) {
  const Status status = ort::ToRefusal(Status::Error(text));
  if (status.message() == text) return nb::none();
  return nb::make_tuple(static_cast<int>(status.kind()), status.message());
}

/// Why ATen nodes cannot run here, "" where they can. `installed` is the file of the package torch.
std::string LibtorchProblem(const std::string& installed) {
  const auto find = [&](std::string* path) {
    *path = installed;
    return installed.empty() ? Status::Unavailable("this Python has no package torch") : Status();
  };
  std::string path;
  aten::Libtorch loaded;
  Status status = aten::FindLibtorch(find, &path);
  if (status.ok()) status = aten::LoadLibtorch(path, &loaded);
  return status.message();
}

nb::object FindError(const std::string& text) {
  long long exception = 0;
  const Status status = Status::FindIn(text, &exception);
  if (status.ok()) return nb::none();
  return nb::make_tuple(std::string(Name(status.kind())), status.message(), exception);
}

}  // namespace
}  // namespace opgraft::pyop

NB_MODULE(_pyop, module) {
  using namespace opgraft::pyop;
  nb::set_leak_warnings(false);  // sessions that live until the end of the process hold operators
  ImportNumPy();
  PrepareForForks();
  module.attr(kBridgeAttribute) = nb::capsule(&kBridge, kBridgeCapsule);
  module.def(
      "prepare", &Prepare, nb::arg("model"), nb::arg("origin"), nb::arg("runtime"),
      nb::arg("allow"), nb::arg("environment"), nb::arg("prefer"),
      "(bytes, or None where the original serves as it is; has external data, needs a file, "
      "[(node, module, class, operator)], {operator of a pack: the pack}, {operator of ATen: "
      "needs no allowance})");
  module.def("prepare_file", &PrepareFile, nb::arg("path"), nb::arg("runtime"), nb::arg("allow"),
             nb::arg("environment"), nb::arg("prefer"), nb::arg("may_refer"),
             "(as prepare, the folder of the data, and where the bytes refer to the file a "
             "function that raises once it is another)");
  module.def(
      "aten_is_listed",
      [](const std::string& full_name) { return opgraft::aten::IsListed(full_name); },
      nb::arg("full_name"),
      "Whether an ATen node may run \"aten::name.overload\" without an allowance; None where none "
      "can");
  module.def("libtorch_problem", &LibtorchProblem, nb::arg("installed"),
             "Why ATen nodes cannot run here, or \"\"; loads libtorch");
  DefineSchemas(module);
  DefineSurvey(module);
  DefinePacks(module);
  DefineTorchCalls(module);
  opgraft::eager::DefineKernel(module);
  module.def("declare", &DeclareOperator, nb::arg("domain"), nb::arg("name"), nb::arg("module"),
             nb::arg("inputs"), nb::arg("outputs"), nb::arg("types"), nb::arg("attributes"),
             nb::arg("has_shape_rule"), nb::arg("on_gpu"));
  module.def(
      "make_session", [](std::int64_t number) { return std::exchange(session_in_making, number); },
      nb::arg("number"),
      "The operators that this thread makes from now on are of that session; returns the last one");
  module.def(
      "is_in_operator_of", [](std::int64_t session) { return InOperatorOf::Has(session); },
      nb::arg("session"), "Whether this thread is in an operator of the session of that number");
  module.def("enter_run", &EnterRun, "A run of a session begins; at exit, no more");
  module.def("leave_run", &LeaveRun, "A run of a session ends");
  module.def("close_gate", &CloseGate, "Holds back the threads that would run on at exit");
  module.def("is_plain", &IsPlain, nb::arg("feed"),
             "Whether all values are arrays in this machine's byte order, or OrtValues");
  module.def("find_refusal", &FindRefusal, nb::arg("text"),
             "(kind of error, message) for what ONNX Runtime said of a model, or None");
  module.def(
      "find_error", &FindError, nb::arg("text"),
      "(error class, message, number of the exception or 0) in a text from ONNX Runtime, or None");
}
