// Finds, or prepares, the operator for a call's attributes and types, and calls it.
#include "python/eager/kernel.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "base/element_type.h"
#include "core/packs.h"
#include "python/call/declarations.h"
#include "python/call/failure.h"
#include "python/call/python_api.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

/// The most sets of attributes, and of types, that are kept; an operator seldom has more than a
/// few.
constexpr std::size_t kMostKept = 16;

/// Returns whether two arguments of kinds that a schema has are the same, bit for bit.
bool IsSame(PyObject* one, PyObject* other) {
  if (one == other) return true;
  if (Py_TYPE(one) != Py_TYPE(other)) return false;
  if (PyFloat_CheckExact(one)) {
    return std::bit_cast<std::uint64_t>(PyFloat_AsDouble(one)) ==
           std::bit_cast<std::uint64_t>(PyFloat_AsDouble(other));
  }
  if (PyList_CheckExact(one)) {
    if (NB_LIST_GET_SIZE(one) != NB_LIST_GET_SIZE(other)) return false;
    for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(one); ++i) {
      if (!IsSame(NB_LIST_GET_ITEM(one, i), NB_LIST_GET_ITEM(other, i))) return false;
    }
    return true;
  }
  if (!PyLong_Check(one) && !PyUnicode_CheckExact(one)) return false;
  const int is_same = PyObject_RichCompareBool(one, other, Py_EQ);
  if (is_same < 0) throw nb::python_error();
  return is_same != 0;
}

bool HasSameItems(PyObject* one, PyObject* other) {
  const Py_ssize_t size = one != nullptr ? NB_DICT_GET_SIZE(one) : 0;
  if (size != NB_DICT_GET_SIZE(other)) return false;
  if (size == 0) return true;
  Py_ssize_t at = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  while (PyDict_Next(one, &at, &key, &value) != 0) {
    PyObject* const known = PyDict_GetItem(other, key);
    if (known == nullptr || !IsSame(value, known)) return false;
  }
  return true;
}

/// Returns the outputs in torch's form: one tensor, a tuple of several, a list for a variadic
/// output.
nb::object Arrange(const Schema& schema, Outputs* outputs) {
  const std::size_t declared = schema.outputs.size();
  if (declared > 0 && schema.outputs.back().occurrence == Occurrence::kVariadic) {
    nb::list rest;
    for (std::size_t i = declared - 1; i < outputs->size(); ++i) rest.append((*outputs)[i]);
    outputs->resize(declared - 1);
    outputs->push_back(rest);
  }
  if (outputs->empty()) return nb::none();
  if (outputs->size() == 1) return std::move(outputs->front());
  nb::object tuple = Checked(PyTuple_New(static_cast<Py_ssize_t>(outputs->size())));
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    NB_TUPLE_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), (*outputs)[i].release().ptr());
  }
  return tuple;
}

/// Raises the error of a call, with the exception that the operator raised as its cause.
[[noreturn]] void RaiseWithCause(const Status& status) {
  const std::string words = status.ToString();
  const nb::object text =
      Checked(PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace"));
  const nb::object error =
      nb::module_::import_("opgraft._base._errors")
          .attr("translate")(nb::steal(pyop::CallWith(PyExc_Exception, text.ptr())));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace

Callee::Callee(std::string full_name, bool is_native, nb::object read)
    : full_name_(std::move(full_name)), is_native_(is_native), read_(std::move(read)) {
  Reload();
}

void Callee::Reload() {
  std::shared_ptr<const Schema> found;
  Status status;
  if (is_native_) {
    status = Packs::OfThisProcess().Find(full_name_, full_name_, 0, &found);
  } else {
    found = pyop::FindDeclared(full_name_);
  }
  if (status.ok() && found == nullptr)
    status = Status::Error("the operator " + full_name_ + " is not declared");
  if (!status.ok()) pyop::Raise(status);
  schema_ = std::move(found);
  nodes_.clear();
}

std::vector<std::int64_t> OutputTypes(const Schema& schema, const std::vector<std::int64_t>& types,
                                      std::size_t outputs) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < outputs; ++i) found.push_back(schema.OutputType(i, types));
  return found;
}

bool Prepared::IsFor(const Inputs& inputs) const {
  return std::equal(inputs.all.begin(), inputs.all.end(), types_.begin(), types_.end(),
                    [](const Input& input, std::int64_t type) { return input.type == type; });
}

nb::object Kernel::Call(PyObject* arguments, PyObject* keywords) {
  std::array<std::byte, 1024> bytes;
  std::pmr::monotonic_buffer_resource memory(bytes.data(), bytes.size());
  Inputs inputs(&memory);
  ReadInputs(callee_->schema(), arguments, &inputs);
  if (!otherwise_.is_none()) {
    if (!IsPlain(inputs) || !View(&inputs)) {
      return Checked(PyObject_Call(otherwise_.ptr(), arguments, keywords));
    }
  } else if (!View(&inputs)) {
    for (std::size_t i = 0; i < inputs.all.size(); ++i) {
      const Status status = CheckReadable(callee_->schema(), inputs.all[i], i);
      if (!status.ok()) pyop::Raise(status);
    }
  }
  const std::shared_ptr<Prepared> prepared = callee_->Find(keywords, inputs);
  Outputs outputs(&memory);
  const Status status = prepared->Run(inputs, TorchExchange(), &outputs);
  if (!status.ok()) RaiseWithCause(status);
  return Arrange(prepared->schema(), &outputs);
}

std::shared_ptr<Prepared> Callee::Find(PyObject* keywords, const Inputs& inputs) {
  const std::shared_ptr<Node>* known = nullptr;
  for (std::size_t i = 0; i < nodes_.size() && known == nullptr; ++i) {
    if (!HasSameItems(keywords, nodes_[i]->keywords.ptr())) continue;
    // The most recently used one is moved to the front.
    if (i != 0) std::swap(nodes_[i], nodes_[0]);
    known = &nodes_[0];
  }
  if (known != nullptr) {
    for (const std::shared_ptr<Prepared>& prepared : (*known)->prepared) {
      if (prepared->IsFor(inputs)) return prepared;
    }
  }
  const std::shared_ptr<Node> node = known != nullptr ? *known : MakeNode(keywords);
  std::vector<std::int64_t> types;
  for (const Input& input : inputs.all) types.push_back(input.type);
  Status status = Check(types);
  std::shared_ptr<Prepared> made;
  if (status.ok()) {
    status = schema_->native != nullptr
                 ? PrepareNative(schema_, node->attributes, types, node->outputs, &made)
                 : PreparePython(schema_, node->callable, types, node->outputs, &made);
  }
  if (!status.ok()) RaiseWithCause(status);
  if (node->prepared.size() == kMostKept) node->prepared.pop_back();
  node->prepared.insert(node->prepared.begin(), made);
  return made;
}

std::shared_ptr<Callee::Node> Callee::MakeNode(PyObject* keywords) {
  auto made = std::make_shared<Node>();
  made->keywords = Checked(keywords != nullptr ? PyDict_Copy(keywords) : PyDict_New());
  const nb::object read = read_(made->keywords);
  made->attributes = nb::borrow<nb::dict>(nb::object(read[0]));
  made->outputs = nb::cast<std::size_t>(read[1]);
  if (!schema_->native) made->callable = pyop::MakeDeclared(full_name_, made->attributes);
  if (nodes_.size() == kMostKept) nodes_.pop_back();
  nodes_.insert(nodes_.begin(), made);
  return made;
}

Status Callee::Check(const std::vector<std::int64_t>& types) const {
  const std::string who = schema_->FullName();
  if (!Schema::TakesCount(schema_->inputs, types.size())) {
    return Status::Error(who + ": expected " + Schema::CountText(schema_->inputs, "input") +
                         ", got " + std::to_string(types.size()));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Parameter& parameter = Schema::At(schema_->inputs, i);
    const ElementType* const type = FindElementType(types[i]);
    if (types[i] == 0 || (type != nullptr && type->is_carried)) continue;
    return Status::Error(who + ": input " + std::to_string(i) + ", '" + parameter.name + "', is " +
                         ElementTypeName(types[i]) +
                         ", which ONNX Runtime's operators do not support. Fix: convert it, "
                         "as in torch.view_as_real(x)");
  }
  Status status = schema_->CheckTypes(who, types, {});
  if (status.ok()) return status;
  // Suggests the first type that is allowed, or the type of the other inputs.
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < types.size() && wanted == 0; ++i) {
    const TypeVariable& variable = schema_->types[Schema::At(schema_->inputs, i).type];
    if (types[i] == 0) continue;
    wanted = variable.Allows(types[i]) ? 0 : variable.allowed.front();
  }
  return Status::Error(status.message() + ". Fix: convert it, as in " +
                       (wanted != 0 ? "x.to(torch." + ElementTypeName(wanted) + ")"
                                    : std::string("x.to(other.dtype)")));
}

std::vector<std::int64_t> Callee::OutputTypes(const std::vector<std::int64_t>& types,
                                              std::size_t outputs) const {
  if (const Status status = Check(types); !status.ok()) pyop::Raise(status);
  std::vector<std::int64_t> found = eager::OutputTypes(*schema_, types, outputs);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != 0) continue;
    pyop::Raise(Status::Error(full_name_ + ": output " + std::to_string(i) +
                              " has the type of an input that is absent"));
  }
  return found;
}

namespace {

PyObject* CallKernel(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
  try {
    return nb::inst_ptr<Kernel>(self)->Call(arguments, keywords).release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyType_Slot kernel_slots[] = {{Py_tp_call, reinterpret_cast<void*>(&CallKernel)}, {0, nullptr}};

}  // namespace

void DefineKernel(nb::module_& module) {
  DefineTorch(module);
  nb::class_<Kernel>(module, "TorchKernel", nb::type_slots(kernel_slots))
      .def(
          "__init__",
          [](Kernel* self, const std::string& full_name, bool is_native, nb::object read) {
            new (self)
                Kernel(std::make_shared<Callee>(full_name, is_native, std::move(read)), nb::none());
          },
          nb::arg("full_name"), nb::arg("is_native"), nb::arg("read"))
      .def("otherwise", &Kernel::With, nb::arg("function"))
      .def("reload", [](Kernel& self) { self.callee().Reload(); })
      .def(
          "output_types",
          [](Kernel& self, const std::vector<std::int64_t>& types, std::size_t outputs) {
            return self.callee().OutputTypes(types, outputs);
          },
          nb::arg("types"), nb::arg("outputs"));
}

}  // namespace opgraft::eager
