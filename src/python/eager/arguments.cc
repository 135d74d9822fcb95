// Checks a call's tensors with as few and as cheap calls of torch as possible.
#include "python/eager/arguments.h"

#include <algorithm>
#include <string>

#include "python/call/dlpack_tensors.h"
#include "python/call/failure.h"
#include "python/eager/kernel.h"

namespace nb = nanobind;

namespace opgraft::eager {
namespace {

/// The type of a tensor whose memory cannot be read.
constexpr std::int64_t kUnreadable = -1;

/// The objects of torch that are used here.
struct Torch {
  const dlpack::Exchange* exchange = nullptr;
  PyObject* tensor = nullptr;  // torch.Tensor and torch.nn.Parameter: the types of plain tensors
  PyObject* parameter = nullptr;
  PyObject* count_modes = nullptr;  // returns the number of dispatch modes active in this thread
  PyObject* is_grad_enabled = nullptr;
  PyObject* forward_mode = nullptr;   // the namespace of torch.autograd.forward_ad
  PyObject* forward_level = nullptr;  // this and the next two are names of attributes
  PyObject* requires_grad = nullptr;
  PyObject* is_neg = nullptr;
};

Torch torch;

void SetTorch(const nb::object& exchange, const nb::object& tensor, const nb::object& parameter,
              const nb::object& count_modes, const nb::object& is_grad_enabled,
              const nb::object& forward_mode, std::uintptr_t parallel_for) {
  Torch found;
  if (const Status status = FindExchange(exchange, &found.exchange); !status.ok()) {
    pyop::Raise(status);
  }
  // Never released, since torch is never unloaded.
  found.tensor = nb::object(tensor).release().ptr();
  found.parameter = nb::object(parameter).release().ptr();
  found.count_modes = nb::object(count_modes).release().ptr();
  found.is_grad_enabled = nb::object(is_grad_enabled).release().ptr();
  found.requires_grad = PyUnicode_InternFromString("requires_grad");
  found.is_neg = PyUnicode_InternFromString("is_neg");
  found.forward_mode = nb::object(forward_mode).release().ptr();
  found.forward_level = PyUnicode_InternFromString("_current_level");
  SetParallelFor(parallel_for);
  torch = found;
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

}  // namespace

void ReadInputs(const Schema& schema, PyObject* arguments, Inputs* inputs) {
  const auto add = [&](PyObject* object) {
    inputs->all.push_back({object == Py_None ? nullptr : object});
  };
  const auto given =
      std::min(static_cast<std::size_t>(NB_TUPLE_GET_SIZE(arguments)), schema.inputs.size());
  inputs->all.reserve(given);
  for (std::size_t i = 0; i < given; ++i) {
    PyObject* const argument = NB_TUPLE_GET_ITEM(arguments, static_cast<Py_ssize_t>(i));
    if (schema.inputs[i].occurrence != Occurrence::kVariadic) {
      add(argument);
      continue;
    }
    const nb::object list = Checked(PySequence_Fast(argument, "expected a list of tensors"));
    const bool is_list = PyList_Check(list.ptr());  // otherwise a tuple
    for (Py_ssize_t j = 0; j < Py_SIZE(list.ptr()); ++j) {
      add(is_list ? NB_LIST_GET_ITEM(list.ptr(), j) : NB_TUPLE_GET_ITEM(list.ptr(), j));
    }
    inputs->kept.push_back(list);
  }
  while (!inputs->all.empty() && inputs->all.back().object == nullptr) inputs->all.pop_back();
}

bool IsPlain(const Inputs& inputs) {
  const nb::object modes = Checked(PyObject_CallNoArgs(torch.count_modes));
  if (PyLong_AsLong(modes.ptr()) != 0) return false;
  // Inside a level of forward-mode differentiation, a tensor may carry a derivative.
  PyObject* const level = PyDict_GetItem(torch.forward_mode, torch.forward_level);
  if (level == nullptr || PyLong_AsLong(level) >= 0) return false;
  bool requires_grad = false;
  for (const Input& input : inputs.all) {
    if (input.object == nullptr) continue;
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(input.object));
    if (type != torch.tensor && type != torch.parameter) return false;
    requires_grad |= Checked(PyObject_GetAttr(input.object, torch.requires_grad)).ptr() == Py_True;
    // The memory of a negated view holds the negatives of its elements.
    PyObject* const self = input.object;
    const nb::object is_neg = Checked(PyObject_VectorcallMethod(torch.is_neg, &self, 1, nullptr));
    if (is_neg.ptr() != Py_False) return false;
  }
  if (!requires_grad) return true;
  return Checked(PyObject_CallNoArgs(torch.is_grad_enabled)).ptr() == Py_False;
}

bool View(Inputs* inputs) {
  bool can_be_read = true;
  for (Input& input : inputs->all) {
    if (input.object == nullptr) continue;
    dlpack::Tensor& tensor = input.tensor;
    input.type = kUnreadable;
    if (torch.exchange->view_from_object(input.object, &tensor) != 0) {
      PyErr_Clear();
      can_be_read = false;
      continue;
    }
    const bool is_here =
        tensor.device.type == dlpack::kCpu || tensor.device.type == dlpack::kCudaHost;
    // A tensor that wraps another one has elements, but no memory.
    if (!is_here || (tensor.data == nullptr && Elements(tensor) != 0)) {
      can_be_read = false;
      continue;
    }
    input.type = ElementTypeOf(tensor.type);
    can_be_read &= input.type != 0;
  }
  return can_be_read;
}

Status CheckReadable(const Schema& schema, const Input& input, std::size_t index) {
  if (input.object == nullptr || input.type > 0) return Status();
  const nb::handle tensor(input.object);
  const std::string who = schema.FullName() + ": input " + std::to_string(index) + ", '" +
                          Schema::At(schema.inputs, index).name + "', is ";
  const std::string layout = TextOf(tensor, "layout");
  const std::string device = TextOf(tensor, "device");
  const bool is_dense = layout == "torch.strided";
  if (input.type != kUnreadable || (is_dense && device == "cpu")) {
    return Status::Error(who + TextOf(tensor, "dtype") +
                         ", which ONNX tensors cannot have. Fix: convert it, as in "
                         "x.to(torch.float32)");
  }
  return Status::Error(who + "a tensor of layout " + layout + " on the device " + device +
                       ", expected a dense tensor (torch.strided) on the CPU. Fix: " +
                       (is_dense ? "x.cpu()" : "x.to_dense()"));
}

const dlpack::Exchange& TorchExchange() { return *torch.exchange; }

void DefineTorch(nb::module_& module) {
  module.def("set_torch", &SetTorch, nb::arg("exchange"), nb::arg("tensor"), nb::arg("parameter"),
             nb::arg("count_modes"), nb::arg("is_grad_enabled"), nb::arg("forward_mode"),
             nb::arg("parallel_for"));
}

}  // namespace opgraft::eager
