// Converts a survey to plain Python values: dictionaries, lists, strings and numbers.
#include "python/module/survey.h"

#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "core/domains.h"
#include "core/our_modules.h"
#include "core/platform.h"
#include "core/policy.h"
#include "model/explain.h"
#include "model/graphs.h"
#include "model/pyop_node.h"
#include "model/survey.h"
#include "python/call/arguments.h"
#include "python/call/exit_gate.h"
#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// The bytes of any object with Python's buffer protocol, such as a mapped file.
class Buffer {
 public:
  explicit Buffer(const nb::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::string_view bytes() const {
    return {static_cast<const char*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_ = {};
};

nb::list ToList(const std::vector<model::SurveyedValue>& values) {
  nb::list list;
  for (const model::SurveyedValue& value : values) {
    list.append(nb::make_tuple(ReadableName(value.name), value.element_type, value.count));
  }
  return list;
}

nb::dict ToDictionary(const model::SurveyedOperator& surveyed) {
  nb::list nodes;
  for (const model::SurveyedNode& node : surveyed.nodes) {
    nodes.append(nb::make_tuple(ReadableName(node.name), ReadableName(node.place)));
  }
  nb::list attributes;
  for (const auto& [name, attribute] : surveyed.attributes) {
    attributes.append(nb::make_tuple(ReadableName(name), attribute.type, attribute.count));
  }
  nb::list differences;
  for (const std::string& difference : surveyed.differences) {
    differences.append(Readable(difference));
  }
  nb::dict result;
  result["domain"] = ReadableName(surveyed.domain);
  result["op_type"] = ReadableName(surveyed.op_type);
  result["version"] = surveyed.version;
  result["is_pyop"] = surveyed.is_pyop;
  result["is_referring"] = surveyed.is_referring;
  result["module"] = ReadableName(surveyed.module);
  result["class_name"] = ReadableName(surveyed.class_name);
  result["compute"] = ReadableName(surveyed.compute);
  result["operator_name"] = ReadableName(surveyed.operator_name);
  result["torch_operator"] = ReadableName(surveyed.torch_operator);
  result["defined_in"] = ReadableName(surveyed.defined_in);
  result["is_function"] = surveyed.is_function;
  result["count"] = surveyed.count;
  result["nodes"] = nodes;
  result["inputs"] = ToList(surveyed.inputs);
  result["outputs"] = ToList(surveyed.outputs);
  result["attributes"] = attributes;
  result["differences"] = differences;
  return result;
}

nb::dict Survey(const nb::object& model, const std::string& origin, const std::string& runtime) {
  const Buffer buffer(model);
  model::Survey survey;
  Status status;
  WithoutGil([&] { status = model::TakeSurvey(buffer.bytes(), origin, runtime, &survey); });
  if (!status.ok()) Raise(status);
  nb::list imports;
  for (const model::SurveyedImport& import : survey.imports) {
    imports.append(
        nb::make_tuple(ReadableName(import.domain), import.version, import.limit, import.known));
  }
  nb::dict modules;
  for (const auto& [name, module] : survey.modules) {
    modules[ReadableName(name).c_str()] = ReadableName(module);
  }
  nb::list operators;
  for (const model::SurveyedOperator& surveyed : survey.operators) {
    operators.append(ToDictionary(surveyed));
  }
  nb::dict result;
  result["is_ort_format"] = survey.is_ort_format;
  result["ir_version"] = survey.ir_version;
  result["ir_limit"] = survey.ir_limit;
  result["ir_known"] = survey.ir_known;
  result["imports"] = imports;
  result["modules"] = modules;
  result["holds_where"] = Readable(survey.holds_where);
  result["differs"] = Readable(survey.differs);
  result["operators"] = operators;
  return result;
}

std::string Explain(const nb::object& model, const std::string& origin, const std::string& folder,
                    const std::string& text) {
  const Buffer buffer(model);
  return model::Explain(buffer.bytes(), origin, folder, text);
}

bool Allows(const std::string& name, const std::string& allow, const std::string& environment) {
  Policy policy;
  if (Status status = Policy::Parse(allow, environment, &policy); !status.ok()) Raise(status);
  return IsOperatorName(name) ? policy.AllowsOperator(name) : policy.Allows(name);
}

bool AllowsType(const std::string& name, const std::string& allow, const std::string& environment) {
  Policy policy;
  if (Status status = Policy::Parse(allow, environment, &policy); !status.ok()) Raise(status);
  return policy.AllowsType(name);
}

nb::list Held(const nb::object& model) {
  const Buffer buffer(model);
  nb::list held;
  model::VisitNodes(buffer.bytes(), [&](std::string_view node) {
    const model::NodeHead head = model::ReadHead(node);
    model::PyOpNode read;
    nb::dict arguments;
    if (!head.IsPyOp() || !model::ReadPyOp(node, &read).ok()) return;
    if (!Policy::RunsWhatModelsHold(read.spec.module)) return;
    if (!ReadArguments(read.spec, &arguments).ok()) return;
    held.append(
        nb::make_tuple(ReadableName(model::NodeName(node, head)), read.spec.module, arguments));
  });
  return held;
}

void CheckIsFile(const nb::bytes& path) {
  const Status status = platform::CheckIsFile(std::string(path.c_str(), path.size()));
  if (!status.ok()) Raise(Status::Model(status.message()));
}

}  // namespace

void DefineSurvey(nb::module_& module) {
  nb::list domains;
  for (const std::string_view domain : kRuntimeDomains) {
    domains.append(nb::str(domain.data(), domain.size()));
  }
  module.attr("RUNTIME_DOMAINS") = nb::tuple(domains);
  module.attr("EXTENSIONS_DOMAIN") = kExtensionsDomain.data();
  nb::dict modules;
  for (const OurModule& one : kOurModules) modules[one.name.data()] = one.class_name.data();
  module.attr("OUR_MODULES") = modules;
  module.def("check_is_file", &CheckIsFile, nb::arg("path"),
             "Raises a ModelError if the path is not a file, such as a FIFO, which may never end");
  module.def("survey", &Survey, nb::arg("model"), nb::arg("origin"), nb::arg("runtime"),
             "The contents of a model, which may be any buffer; see src/model/survey.h");
  module.def("explain", &Explain, nb::arg("model"), nb::arg("origin"), nb::arg("folder"),
             nb::arg("text"),
             "Why ONNX Runtime, which said `text`, cannot load the model, or \"\"");
  module.def("allows", &Allows, nb::arg("name"), nb::arg("allow"), nb::arg("environment"),
             "Whether comma-separated lists allow a Python module or an operator of torch");
  module.def("allows_type", &AllowsType, nb::arg("name"), nb::arg("allow"), nb::arg("environment"),
             "Whether such lists allow \"module.Name\", a type or function that a model holds");
  module.def("held", &Held, nb::arg("model"),
             "The nodes of modules that run code held by the model: (name, module, arguments)");
  module.def(
      "held_for", [](const std::string& name) { return std::string(Policy::HeldFor(name)); },
      nb::arg("module"), "What models hold for such a module, for messages; \"\" for any other");
  module.def(
      "allowance_of",
      [](const std::string& name) { return std::string(Policy::AllowanceOf(name)); },
      nb::arg("module"), "What to write in such a list to allow a Python module");
  module.def(
      "is_of_standard_library", [](const std::string& name) { return IsOfStandardLibrary(name); },
      nb::arg("name"), "Whether a module, or a name in it, belongs to Python's standard library");
}

}  // namespace opgraft::pyop
