// Gives Python the bodies that preparing puts in the place of nodes.
#include "python/module/bodies.h"

#include <exception>
#include <string>
#include <string_view>

#include "model/function_bodies.h"
#include "python/call/failure.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// `graph` declares the types of the node's inputs. Returns None if the operator has no body.
nb::object FunctionBody(const nb::bytes& node, std::int64_t version, const nb::bytes& graph) {
  const std::string_view bytes(node.c_str(), node.size());
  std::string function;
  Status status;
  try {
    model::DeclaredValues declared;
    declared.Read({graph.c_str(), graph.size()});
    status =
        model::FindBody(bytes, model::ReadHead(bytes), version, declared, "the model", &function);
  } catch (const std::exception& exception) {
    status = Status::Model(exception.what());
  }
  if (!status.ok()) Raise(status);
  if (function.empty()) return nb::none();
  return nb::bytes(function.data(), function.size());
}

}  // namespace

void DefineBodies(nb::module_& module) {
  module.def("function_body", &FunctionBody, nb::arg("node"), nb::arg("version"),
             nb::arg("graph") = nb::bytes(""), "Returns the FunctionProto that stands for a node");
}

}  // namespace opgraft::pyop
