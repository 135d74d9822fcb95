// The core's plan of a session, as a Python class.
#include "python/module/plans.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "aten/operators.h"
#include "base/text.h"
#include "model/kernel_probe.h"
#include "model/session_plan.h"
#include "python/call/declarations.h"
#include "python/call/exit_gate.h"
#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

using model::SessionPlan;

/// An item of `python_operators`. The strings are valid for Python whatever the model's bytes are.
struct PlannedOperator {
  std::string node;
  std::string module;
  std::string class_name;
  std::string operator_name;
};

/// Asks a Python function that makes a session of the model's bytes and returns whether it could.
class CalledProbe final : public model::KernelProbe {
 public:
  CalledProbe(const nb::object& loads, std::string conditions)
      : loads_(loads), conditions_(std::move(conditions)) {}

  bool Loads(std::string_view model) override {
    const nb::gil_scoped_acquire gil;
    if (raised_ != nullptr) return false;
    try {
      return nb::cast<bool>(loads_(nb::bytes(model.data(), model.size())));
    } catch (...) {  // such as a KeyboardInterrupt
      raised_ = std::current_exception();
      return false;
    }
  }

  std::string Conditions() const override { return conditions_; }

  /// Raises what the function has raised, if anything.
  void Rethrow() const {
    if (raised_ != nullptr) std::rethrow_exception(raised_);
  }

 private:
  const nb::object& loads_;
  const std::string conditions_;
  std::exception_ptr raised_;
};

SessionPlan MakePlan(const std::optional<nb::bytes>& path, const nb::bytes& model,
                     const std::string& origin, const nb::bytes& folder, const std::string& runtime,
                     const std::string& allow, const std::string& environment,
                     const std::string& prefer, bool may_refer, const nb::object& loads,
                     const std::string& conditions, bool exact) {
  std::optional<CalledProbe> probe;
  if (!loads.is_none()) probe.emplace(loads, conditions);
  model::PlanRequest request = {.bytes = {model.c_str(), model.size()},
                                .origin = origin,
                                .folder = {folder.c_str(), folder.size()},
                                .runtime_version = runtime,
                                .allow = allow,
                                .environment = environment,
                                .prefer = prefer,
                                .may_refer = may_refer,
                                .probe = probe ? &*probe : nullptr,
                                .exact = exact};
  if (path) request.path.emplace(path->c_str(), path->size());
  const auto declared = [](const Policy& policy) {
    return std::make_unique<DeclaredOperators>(policy);
  };
  SessionPlan plan;
  Status status;
  WithoutGil([&] { status = model::MakePlan(request, declared, &plan); });
  if (probe) probe->Rethrow();
  if (!status.ok()) Raise(status, plan.model.opset_limit);
  return plan;
}

/// Returns the model and drops it here, since it may be large. To be called once.
nb::object TakeContent(SessionPlan& plan) {
  if (plan.model.bytes.empty()) return nb::none();
  nb::bytes content(plan.model.bytes.data(), plan.model.bytes.size());
  plan.model.bytes = std::string();
  return content;
}

nb::list PythonOperators(const SessionPlan& plan) {
  nb::list operators;
  for (const Spec& spec : plan.model.python_operators) {
    operators.append(
        nb::cast(PlannedOperator{ReadableName(spec.node), ReadableName(spec.module),
                                 ReadableName(spec.class_name), ReadableName(spec.operator_name)}));
  }
  return operators;
}

nb::list RescuesOf(const SessionPlan& plan) {
  nb::list rescues;
  for (const model::Rescue& one : plan.model.rescues) {
    rescues.append(nb::make_tuple(ReadableName(one.node), ReadableName(one.operator_name), one.rung,
                                  one.cost, one.native_from));
  }
  return rescues;
}

nb::dict PacksOf(const SessionPlan& plan) {
  nb::dict packs;
  for (const auto& [name, pack] : plan.model.native_operators) {
    packs[ReadableName(name).c_str()] = nb::steal(PyUnicode_DecodeFSDefault(pack.c_str()));
  }
  return packs;
}

nb::dict AtenOf(const SessionPlan& plan) {
  nb::dict operators;
  for (const std::string& name : plan.model.aten_operators) {
    operators[ReadableName(name).c_str()] = aten::IsListed(name).value_or(false);
  }
  return operators;
}

}  // namespace

void DefinePlans(nb::module_& module) {
  nb::class_<PlannedOperator>(module, "PlannedOperator")
      .def_ro("node", &PlannedOperator::node)
      .def_ro("module", &PlannedOperator::module)
      .def_ro("class_name", &PlannedOperator::class_name)
      .def_ro("operator", &PlannedOperator::operator_name);
  nb::class_<SessionPlan>(module, "SessionPlan")
      .def("take_content", &TakeContent)
      .def_ro("tells_folder", &SessionPlan::tells_folder)
      .def_prop_ro(
          "folder",
          [](const SessionPlan& plan) { return nb::bytes(plan.folder.data(), plan.folder.size()); })
      .def_prop_ro("has_external_data",
                   [](const SessionPlan& plan) { return plan.model.has_external_data; })
      .def_prop_ro("refers_to_original",
                   [](const SessionPlan& plan) { return plan.model.refers_to_original; })
      .def_prop_ro("needs_file", [](const SessionPlan& plan) { return plan.model.needs_file; })
      .def_prop_ro("python_operators", &PythonOperators)
      .def_prop_ro("rescues", &RescuesOf)
      .def_prop_ro("packs", &PacksOf)
      .def_prop_ro("aten", &AtenOf)
      .def_prop_ro("why_refused",
                   [](const SessionPlan& plan) { return ReadableName(plan.why_refused); })
      .def("check_unchanged", [](const SessionPlan& plan) {
        if (Status status = plan.CheckUnchanged(); !status.ok()) Raise(status);
      });
  module.def("make_plan", &MakePlan, nb::kw_only(), nb::arg("path") = nb::none(),
             nb::arg("model") = nb::bytes(""), nb::arg("origin") = "the model",
             nb::arg("folder") = nb::bytes(""), nb::arg("runtime"), nb::arg("allow"),
             nb::arg("environment"), nb::arg("prefer"), nb::arg("may_refer") = false,
             nb::arg("loads") = nb::none(), nb::arg("conditions") = "", nb::arg("exact") = false,
             "Plans a session of the model at `path`, or of the bytes `model`");
  module.def(
      "refuse_to_open", [](const std::string& runtime) { Raise(SessionPlan::NeedsFile(runtime)); },
      nb::arg("runtime"), "Raises the error for a plan that needs a file");
}

}  // namespace opgraft::pyop
