// Finding out what a call is about, and what has been made for calls like it.
#include "eager/kernel.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/element_type.h"
#include "core/packs.h"
#include "eager/tensors.h"
#include "pyop/declarations.h"
#include "pyop/failure.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

/// Sets of attributes, and of types, that are kept ready; an operator seldom has more than a few.
constexpr std::size_t kMostKept = 16;

/// What is used of torch.
struct Torch {
  const dlpack::Exchange* exchange = nullptr;
  PyObject* tensor = nullptr;  // the types of plain tensors
  PyObject* parameter = nullptr;
  PyObject* count_modes = nullptr;  // the dispatch modes that are on in this thread
  PyObject* is_grad_enabled = nullptr;
  PyObject* requires_grad = nullptr;  // names
  PyObject* is_neg = nullptr;
  PyObject* contiguous = nullptr;
};

Torch torch;

void SetTorch(const nb::object& exchange, const nb::object& tensor, const nb::object& parameter,
              const nb::object& count_modes, const nb::object& is_grad_enabled) {
  Torch found;
  if (const Status status = FindExchange(exchange, &found.exchange); !status.ok()) {
    pyop::Raise(status);
  }
  // For good, as torch itself.
  found.tensor = nb::object(tensor).release().ptr();
  found.parameter = nb::object(parameter).release().ptr();
  found.count_modes = nb::object(count_modes).release().ptr();
  found.is_grad_enabled = nb::object(is_grad_enabled).release().ptr();
  found.requires_grad = PyUnicode_InternFromString("requires_grad");
  found.is_neg = PyUnicode_InternFromString("is_neg");
  found.contiguous = PyUnicode_InternFromString("contiguous");
  torch = found;
}

nb::object Checked(PyObject* result) {
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

/// Whether two arguments that a schema gives are the same, to the bit.
bool IsSame(PyObject* one, PyObject* other) {
  if (one == other) return true;
  if (Py_TYPE(one) != Py_TYPE(other)) return false;
  if (PyFloat_CheckExact(one)) {
    const double left = PyFloat_AS_DOUBLE(one);
    const double right = PyFloat_AS_DOUBLE(other);
    return std::memcmp(&left, &right, sizeof(left)) == 0;
  }
  if (PyList_CheckExact(one)) {
    if (PyList_GET_SIZE(one) != PyList_GET_SIZE(other)) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(one); ++i) {
      if (!IsSame(PyList_GET_ITEM(one, i), PyList_GET_ITEM(other, i))) return false;
    }
    return true;
  }
  if (!PyLong_Check(one) && !PyUnicode_CheckExact(one)) return false;
  const int is_same = PyObject_RichCompareBool(one, other, Py_EQ);
  if (is_same < 0) throw nb::python_error();
  return is_same != 0;
}

bool HasSameItems(PyObject* one, PyObject* other) {
  const Py_ssize_t size = one != nullptr ? PyDict_GET_SIZE(one) : 0;
  if (size != PyDict_GET_SIZE(other)) return false;
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

std::size_t Elements(const dlpack::Tensor& tensor) {
  std::size_t elements = 1;
  for (const std::int64_t size : ShapeOf(tensor)) elements *= static_cast<std::size_t>(size);
  return elements;
}

std::string TextOf(const nb::handle& object, const char* attribute) {
  const nb::object value = nb::steal(PyObject_GetAttrString(object.ptr(), attribute));
  if (!value.is_valid()) PyErr_Clear();
  return value.is_valid() ? pyop::ToUtf8(nb::steal(PyObject_Str(value.ptr()))) : "?";
}

/// Raises what a call has come to, with the exception that the operator raised as its cause.
[[noreturn]] void RaiseWithCause(const Status& status) {
  const nb::object text = nb::str(status.ToString().c_str());
  const nb::object error =
      nb::module_::import_("opgraft._errors")
          .attr("translate")(nb::steal(PyObject_CallOneArg(PyExc_Exception, text.ptr())));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace

Kernel::Kernel(const std::string& full_name, bool is_native, nb::object read, nb::object otherwise)
    : full_name_(full_name),
      is_native_(is_native),
      read_(std::move(read)),
      otherwise_(std::move(otherwise)) {
  Reload();
}

void Kernel::Reload() {
  std::shared_ptr<const Schema> found;
  Status status;
  if (is_native_) {
    status = Packs::OfThisProcess().Find(full_name_, full_name_, 0, &found);
  } else {
    found = pyop::FindDeclared(full_name_);
  }
  if (status.ok() && found == nullptr) status = Status::Error("there is no " + full_name_);
  if (!status.ok()) pyop::Raise(status);
  schema_ = std::move(found);
  nodes_.clear();
}

nb::object Kernel::Call(PyObject* arguments, PyObject* keywords) {
  const std::shared_ptr<const Schema> held = schema_;  // it may be declared again meanwhile
  Inputs inputs;
  ReadInputs(arguments, &inputs);
  if (!otherwise_.is_none() && !(IsPlain(inputs) && View(&inputs))) {
    return Checked(PyObject_Call(otherwise_.ptr(), arguments, keywords));
  }
  if (otherwise_.is_none() && !View(&inputs)) {
    for (std::size_t i = 0; i < inputs.objects.size(); ++i) {
      const Status status = Unreadable(inputs, i);
      if (!status.ok()) pyop::Raise(status);
    }
  }
  const std::shared_ptr<Node> node = FindNode(keywords);
  const std::shared_ptr<Prepared> prepared = FindPrepared(*node, inputs);
  std::vector<nb::object> outputs;
  const Status status = prepared->Run(inputs, *torch.exchange, &outputs);
  if (!status.ok()) RaiseWithCause(status);
  return Arrange(std::move(outputs));
}

void Kernel::ReadInputs(PyObject* arguments, Inputs* inputs) const {
  const auto add = [&](PyObject* object) {
    inputs->objects.push_back(object == Py_None ? nullptr : object);
  };
  const auto given =
      std::min(static_cast<std::size_t>(PyTuple_GET_SIZE(arguments)), schema_->inputs.size());
  inputs->objects.reserve(given);
  for (std::size_t i = 0; i < given; ++i) {
    PyObject* const argument = PyTuple_GET_ITEM(arguments, static_cast<Py_ssize_t>(i));
    if (schema_->inputs[i].occurrence != Occurrence::kVariadic) {
      add(argument);
      continue;
    }
    const nb::object list = Checked(PySequence_Fast(argument, "expected a list of tensors"));
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(list.ptr()); ++j) {
      add(PySequence_Fast_GET_ITEM(list.ptr(), j));
    }
    inputs->kept.push_back(list);
  }
  while (!inputs->objects.empty() && inputs->objects.back() == nullptr) inputs->objects.pop_back();
}

bool Kernel::IsPlain(const Inputs& inputs) const {
  const nb::object modes = Checked(PyObject_CallNoArgs(torch.count_modes));
  if (PyLong_AsLong(modes.ptr()) != 0) return false;
  bool requires_grad = false;
  for (PyObject* const object : inputs.objects) {
    if (object == nullptr) continue;
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    if (type != torch.tensor && type != torch.parameter) return false;
    requires_grad |= Checked(PyObject_GetAttr(object, torch.requires_grad)).ptr() == Py_True;
    // A negated view shows other elements than lie in its memory.
    PyObject* const self = object;
    const nb::object is_neg = Checked(PyObject_VectorcallMethod(
        torch.is_neg, &self, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (is_neg.ptr() != Py_False) return false;
  }
  if (!requires_grad) return true;
  return Checked(PyObject_CallNoArgs(torch.is_grad_enabled)).ptr() == Py_False;
}

bool Kernel::View(Inputs* inputs) const {
  inputs->tensors.resize(inputs->objects.size());
  inputs->types.resize(inputs->objects.size());
  bool can_be_read = true;
  for (std::size_t i = 0; i < inputs->objects.size(); ++i) {
    if (inputs->objects[i] == nullptr) continue;
    dlpack::Tensor& tensor = inputs->tensors[i];
    inputs->types[i] = -1;
    if (torch.exchange->view_from_object(inputs->objects[i], &tensor) != 0) {
      PyErr_Clear();
      can_be_read = false;
      continue;
    }
    const bool is_here =
        tensor.device.type == dlpack::kCpu || tensor.device.type == dlpack::kCudaHost;
    // What wraps a tensor has elements, but no memory.
    if (!is_here || (tensor.data == nullptr && Elements(tensor) != 0)) {
      can_be_read = false;
      continue;
    }
    inputs->types[i] = ElementTypeOf(tensor.type);
    can_be_read &= inputs->types[i] != 0;
  }
  return can_be_read;
}

Status Kernel::Unreadable(const Inputs& inputs, std::size_t index) const {
  if (inputs.objects[index] == nullptr || inputs.types[index] > 0) return Status();
  const nb::handle tensor(inputs.objects[index]);
  const std::string who = schema_->FullName() + ": input " + std::to_string(index) + ", '" +
                          Schema::At(schema_->inputs, index).name + "', is ";
  const std::string type = TextOf(tensor, "dtype");
  const std::string device = TextOf(tensor, "device");
  const std::string layout = TextOf(tensor, "layout");
  if (inputs.types[index] == 0) {
    return Status::Error(who + type +
                         ", which ONNX has no tensors of. To mend it: convert it, as "
                         "in x.to(torch.float32)");
  }
  const bool is_dense = layout == "torch.strided";
  return Status::Error(who + "a tensor of layout " + layout + " on the device " + device +
                       ", expected a dense one (torch.strided) in the CPU's memory. To mend it: " +
                       (is_dense ? "x.cpu()" : "x.to_dense()"));
}

std::shared_ptr<Kernel::Node> Kernel::FindNode(PyObject* keywords) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!HasSameItems(keywords, nodes_[i]->keywords.ptr())) continue;
    if (i != 0)
      std::rotate(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(i),
                  nodes_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return nodes_.front();
  }
  auto made = std::make_shared<Node>();
  made->keywords = Checked(keywords != nullptr ? PyDict_Copy(keywords) : PyDict_New());
  const nb::object read = read_(made->keywords);
  made->attributes = nb::borrow<nb::dict>(nb::object(read[0]));
  made->outputs = nb::cast<std::size_t>(read[1]);
  if (schema_->native == nullptr) {
    const nb::object parts = nb::module_::import_("opgraft._declare")
                                 .attr("make")(schema_->FullName().c_str(), made->attributes);
    made->callable.compute = parts[0];
    made->callable.copy_inputs = nb::cast<bool>(parts[1]);
    if (!nb::object(parts[2]).is_none()) made->callable.rule = parts[2];
    made->callable.takes_out = nb::cast<bool>(parts[3]);
  }
  if (nodes_.size() == kMostKept) nodes_.pop_back();
  nodes_.insert(nodes_.begin(), made);
  return made;
}

std::shared_ptr<Prepared> Kernel::FindPrepared(Node& node, const Inputs& inputs) const {
  for (const std::shared_ptr<Prepared>& prepared : node.prepared) {
    if (prepared->types() == inputs.types) return prepared;
  }
  Status status = Check(inputs.types);
  std::shared_ptr<Prepared> made;
  if (status.ok()) {
    status = schema_->native != nullptr
                 ? PrepareNative(schema_, node.attributes, inputs.types, node.outputs, &made)
                 : PreparePython(*schema_, node.callable, inputs.types, node.outputs, &made);
  }
  if (!status.ok()) RaiseWithCause(status);
  if (node.prepared.size() == kMostKept) node.prepared.pop_back();
  node.prepared.insert(node.prepared.begin(), made);
  return made;
}

Status Kernel::Check(const std::vector<std::int64_t>& types) const {
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
                         ", which operators of ONNX Runtime cannot take. To mend it: convert it, "
                         "as in torch.view_as_real(x)");
  }
  const Status status = schema_->CheckTypes(who, types, {});
  if (status.ok()) return status;
  // What the others are, or the first that is allowed.
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < types.size() && wanted == 0; ++i) {
    const TypeVariable& variable = schema_->types[Schema::At(schema_->inputs, i).type];
    if (types[i] == 0) continue;
    wanted = variable.Allows(types[i]) ? 0 : variable.allowed.front();
  }
  return Status::Error(status.message() + ". To mend it: convert it, as in " +
                       (wanted != 0 ? "x.to(torch." + ElementTypeName(wanted) + ")"
                                    : std::string("x.to(other.dtype)")));
}

std::vector<std::int64_t> Kernel::OutputTypes(const std::vector<std::int64_t>& types,
                                              std::size_t outputs) const {
  if (const Status status = Check(types); !status.ok()) pyop::Raise(status);
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < outputs; ++i) {
    const std::size_t variable = Schema::At(schema_->outputs, i).type;
    const std::vector<std::int64_t>& allowed = schema_->types[variable].allowed;
    std::int64_t type = allowed.size() == 1 ? allowed.front() : 0;
    for (std::size_t j = 0; j < types.size() && type == 0; ++j) {
      if (Schema::At(schema_->inputs, j).type == variable) type = types[j];
    }
    if (type == 0) {
      pyop::Raise(Status::Error(schema_->FullName() + ": output " + std::to_string(i) +
                                " has the type of an input that is absent"));
    }
    found.push_back(type);
  }
  return found;
}

nb::object Kernel::Arrange(std::vector<nb::object> outputs) const {
  const std::size_t declared = schema_->outputs.size();
  const bool is_open = declared > 0 && schema_->outputs.back().occurrence == Occurrence::kVariadic;
  if (is_open) {
    nb::list rest;
    for (std::size_t i = declared - 1; i < outputs.size(); ++i) rest.append(outputs[i]);
    outputs.resize(declared - 1);
    outputs.push_back(rest);
  }
  if (outputs.empty()) return nb::none();
  if (outputs.size() == 1) return std::move(outputs[0]);
  nb::object tuple = Checked(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), outputs[i].release().ptr());
  }
  return tuple;
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
  module.def("set_torch", &SetTorch, nb::arg("exchange"), nb::arg("tensor"), nb::arg("parameter"),
             nb::arg("count_modes"), nb::arg("is_grad_enabled"));
  nb::class_<Kernel>(module, "TorchKernel", nb::type_slots(kernel_slots))
      .def(nb::init<const std::string&, bool, nb::object, nb::object>(), nb::arg("full_name"),
           nb::arg("is_native"), nb::arg("read"), nb::arg("otherwise").none())
      .def("reload", &Kernel::Reload)
      .def("output_types", &Kernel::OutputTypes, nb::arg("types"), nb::arg("outputs"));
}

}  // namespace opgraft::eager
