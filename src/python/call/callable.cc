// Finds classes by their module and name, and declared operators by their full name.
#include "python/call/callable.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/element_type.h"
#include "python/call/arguments.h"
#include "python/call/arrays.h"
#include "python/call/declarations.h"
#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// Checks that the class or function `object` is defined in a module that is allowed.
Status CheckHome(const Spec& spec, const Policy& policy, const nb::object& object) {
  const std::string home = ToUtf8(nb::getattr(object, "__module__", nb::none()));
  if (home == spec.module || policy.Allows(home)) return Status();
  if (!home.empty()) return policy.Refusal(spec.Who(), home);
  return Status::Policy(spec.Who() + ": " + Describe(object.ptr()) +
                        " has no '__module__' that names its module, so it cannot be allowed");
}

Status FindClass(const Spec& spec, const Policy& policy, nb::object* found) {
  *found = nb::steal(PyImport_ImportModule(spec.module.c_str()));
  if (!found->is_valid()) {
    return Failure(/*keep_frames=*/true)
        .ToStatus(spec.Who() + ": the import of '" + spec.module + "'", true, spec.module);
  }
  for (std::size_t start = 0; start <= spec.class_name.size();) {
    const std::size_t dot = std::min(spec.class_name.find('.', start), spec.class_name.size());
    const std::string name = spec.class_name.substr(start, dot - start);
    start = dot + 1;
    const nb::object outer = *found;
    *found = nb::steal(PyObject_GetAttrString(outer.ptr(), name.c_str()));
    if (!found->is_valid()) {
      return Failure(/*keep_frames=*/true)
          .ToStatus(spec.Who() + ": the look-up of class '" + spec.class_name + "'", true, outer);
    }
    if (!PyType_Check(found->ptr())) {
      return Status::PyOp(spec.Who() + ": expected '" + name + "' to be a class, but it is " +
                          Describe(found->ptr()));
    }
    // A module also has the names that it imports; allowing the module does not allow those.
    if (Status status = CheckHome(spec, policy, *found); !status.ok()) return status;
  }
  return Status();
}

/// Finds out whether this process wrote the object that the node holds. Runs no code from the
/// model; in a process that has written no such object, nothing of the node is read.
Status FindWriter(const Spec& spec, bool* is_written_here) {
  *is_written_here = false;
  if (!Policy::RunsWhatModelsHold(spec.module)) return Status();
  const nb::object written = nb::module_::import_("opgraft._base._written_here");
  if (!nb::cast<bool>(written.attr("has_of")(spec.module.c_str()))) return Status();
  nb::dict arguments;
  if (Status status = ReadArguments(spec, &arguments); !status.ok()) return status;
  *is_written_here = nb::cast<bool>(written.attr("knows")(spec.module.c_str(), arguments));
  return Status();
}

/// A class that runs code of another module declares so: its `module_argument` is the name of the
/// argument that names the module, and its `operator_argument` the name of the argument that names
/// the operator, which must be allowed itself if no module is named.
Status CheckOtherModule(const Spec& spec, const Policy& policy, const nb::object& type,
                        const nb::dict& arguments) {
  const auto argument = [&](const char* attribute) {
    const std::string name = ToUtf8(nb::getattr(type, attribute, nb::none()));
    const bool is_given = !name.empty() && arguments.contains(name.c_str());
    return is_given ? ToUtf8(arguments[name.c_str()]) : std::string();
  };
  if (!nb::hasattr(type, "module_argument")) return Status();
  if (const std::string module = argument("module_argument"); !module.empty()) {
    return policy.Allows(module) ? Status() : policy.Refusal(spec.Who(), module);
  }
  const std::string name = argument("operator_argument");
  if (name.empty()) {
    return Status::Model(spec.Who() +
                         ": expected the name of the module that defines the code it runs");
  }
  return policy.AllowsOperator(name) ? Status() : policy.HomelessRefusal(spec.Who(), name);
}

/// A class that loads types named by the model asks whether they are allowed: its `policy_argument`
/// is the name of the argument through which it gets a function of a list of names, each
/// "module.Name". The function raises if one is not allowed; the host then gets `refusal`, even if
/// the class handles the exception. If this process wrote the object, all its types are allowed,
/// since they are types of this process.
Status GivePolicy(const Spec& spec, const Policy& policy, const nb::object& type,
                  bool is_written_here, nb::dict* arguments,
                  const std::shared_ptr<Status>& refusal) {
  const std::string argument = ToUtf8(nb::getattr(type, "policy_argument", nb::none()));
  if (argument.empty()) return Status();
  if (arguments->contains(argument.c_str())) {
    return Status::Model(spec.Who() + ": expected no attribute '" + argument +
                         "', which only the host may give");
  }
  (*arguments)[argument.c_str()] =
      nb::cpp_function([policy, refusal, is_written_here, who = spec.Who()](const nb::list& names) {
        if (is_written_here) return;
        std::vector<std::string> refused;
        for (const nb::handle name : names) {
          const std::string text = ToUtf8(nb::borrow(name));
          if (!policy.AllowsType(text)) refused.push_back(text);
        }
        if (refused.empty()) return;
        *refusal = policy.TypesRefusal(who, refused);
        Raise(*refusal);
      });
  return Status();
}

Status MakeFromClass(const Spec& spec, const Policy& policy, bool is_written_here,
                     PythonCallable* made) {
  nb::object type;
  nb::dict arguments;
  if (Status status = FindClass(spec, policy, &type); !status.ok()) return status;
  if (Status status = ReadArguments(spec, &arguments); !status.ok()) return status;
  if (Status status = CheckOtherModule(spec, policy, type, arguments); !status.ok()) return status;
  const auto refusal = std::make_shared<Status>();
  if (Status status = GivePolicy(spec, policy, type, is_written_here, &arguments, refusal);
      !status.ok()) {
    return status;
  }
  const nb::tuple nothing;
  const nb::object object = nb::steal(PyObject_Call(type.ptr(), nothing.ptr(), arguments.ptr()));
  if (!refusal->ok()) {
    PyErr_Clear();
    return *refusal;
  }
  if (!object.is_valid()) {
    return Failure(/*keep_frames=*/true).ToStatus(spec.Who() + ": its __init__", true, arguments);
  }
  made->compute = nb::steal(PyObject_GetAttrString(object.ptr(), spec.compute.c_str()));
  if (!made->compute.is_valid()) {
    return Failure(/*keep_frames=*/true)
        .ToStatus(spec.Who() + ": the look-up of method '" + spec.compute + "'", true, type);
  }
  if (PyCallable_Check(made->compute.ptr()) == 0) {
    return Status::PyOp(spec.Who() + ": expected '" + spec.compute +
                        "' to be a method, but it is " + Describe(made->compute.ptr()));
  }
  // The model chooses the method's name. 'compute' is the method that a class offers to models; any
  // other method must not be inherited or imported from a module that is not allowed.
  if (spec.compute != Spec().compute) {
    if (Status status = CheckHome(spec, policy, made->compute); !status.ok()) return status;
  }
  const auto says = [&](const char* attribute) {
    return nb::cast<bool>(nb::bool_(nb::getattr(type, attribute, nb::bool_(false))));
  };
  made->copy_inputs = says("copy_inputs");
  made->traits = {says("pure"), says("one_worker")};
  return Status();
}

Status MakeFromDeclaration(const Spec& spec, const Policy& policy, PythonCallable* made) {
  std::shared_ptr<const Schema> schema;
  Status status = FindSchema(spec.Who(), spec.operator_name, spec.module, policy, &schema);
  if (!status.ok()) return status;
  if (schema->on_gpu != spec.on_gpu) {
    const auto place = [](bool on_gpu) { return on_gpu ? "a GPU" : "the CPU"; };
    return Status::Model(spec.Who() + ": it is declared to run on " + place(schema->on_gpu) +
                         ", but the node was prepared for " + place(spec.on_gpu) +
                         "; prepare the model again from its original");
  }
  const bool fits = Schema::TakesCount(schema->inputs, spec.input_types.size()) &&
                    Schema::TakesCount(schema->outputs, spec.output_types.size());
  if (!fits) {
    return Status::Model(spec.Who() + ": expected " + Schema::CountText(schema->inputs, "input") +
                         " and " + Schema::CountText(schema->outputs, "output") +
                         ", but the node has " + std::to_string(spec.input_types.size()) + " and " +
                         std::to_string(spec.output_types.size()) +
                         "; prepare the model again from its original");
  }
  status = schema->CheckTypes(spec.Who(), spec.input_types, spec.output_types);
  nb::dict arguments;
  if (status.ok()) status = ReadArguments(spec, &arguments);
  if (!status.ok()) return status;
  try {
    *made = MakeDeclared(spec.operator_name, arguments);
    for (const std::int64_t type : spec.output_types) {
      if (!made->takes_out || HasViews(type)) continue;
      return Status::PyOp(spec.Who() + ": it takes 'out', but an output is " +
                          ElementTypeName(type) +
                          ", which cannot be written in place. Fix: do without 'out'");
    }
  } catch (nb::python_error& error) {
    error.restore();
    return Failure(/*keep_frames=*/true).ToStatus(spec.Who() + ": making it", true, arguments);
  }
  return Status();
}

}  // namespace

PythonCallable MakeDeclared(const std::string& full_name, const nb::dict& attributes) {
  const nb::object made =
      nb::module_::import_("opgraft._declare._declare").attr("make")(full_name.c_str(), attributes);
  PythonCallable callable;
  callable.compute = made.attr("compute");
  callable.copy_inputs = nb::cast<bool>(made.attr("copy_inputs"));
  if (!made.attr("rule").is_none()) callable.rule = made.attr("rule");
  callable.takes_out = nb::cast<bool>(made.attr("takes_out"));
  callable.traits = {nb::cast<bool>(made.attr("pure")), nb::cast<bool>(made.attr("one_worker"))};
  return callable;
}

Status MakeCallable(const Spec& spec, const Policy& policy, PythonCallable* made) {
  bool is_written_here = false;
  if (!spec.IsDeclared()) {
    if (Status status = FindWriter(spec, &is_written_here); !status.ok()) return status;
    if (!is_written_here && !policy.Allows(spec.module)) {
      return policy.Refusal(spec.Who(), spec.module);
    }
  }
  for (const auto* const types : {&spec.input_types, &spec.output_types}) {
    for (const std::int64_t element_type : *types) {
      if (element_type == 0 || spec.on_gpu) continue;  // an absent input, or not a NumPy array
      if (Status status = FindArrays(element_type); !status.ok()) {
        return Status(status.kind(), spec.Who() + ": " + status.message());
      }
    }
  }
  return spec.IsDeclared() ? MakeFromDeclaration(spec, policy, made)
                           : MakeFromClass(spec, policy, is_written_here, made);
}

}  // namespace opgraft::pyop
