// Calls functions by Python's vectorcall, which needs no tuple of arguments.
#include "python/call/invocation.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// The names of keyword arguments in a call with `out`.
PyObject* OutKeyword() {
  static PyObject* const names = PyTuple_Pack(1, PyUnicode_InternFromString("out"));
  return names;
}

/// The arguments that an operator may have kept, for messages.
std::string KeptText(const PythonCallable& callable) {
  return callable.takes_out ? "an input or 'out'" : "an input";
}

std::string HowToKeep(const Spec& spec, const std::string& how) {
  return "Fix: keep a copy (" + how + "), or have every input copied, with " +
         (spec.IsDeclared() ? "@opgraft.op(..., copy_inputs=True)"
                            : "the line 'copy_inputs = True' in the class");
}

}  // namespace

nb::object Arguments::Invoke(const PythonCallable& callable) {
  // For several outputs, `out` is a tuple. During the call it takes the place of its first array.
  const std::span<PyObject* const> arrays = out();
  nb::object tuple;
  PyObject* const array = arrays.empty() ? nullptr : arrays[0];
  if (callable.takes_out && arrays.size() != 1) {
    tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(arrays.size())));
    if (!tuple.is_valid()) return {};
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      NB_TUPLE_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(arrays[i]));
    }
    first_[positional_] = tuple.ptr();
  }
  nb::object returned = nb::steal(PyObject_Vectorcall(callable.compute.ptr(), first_,
                                                      positional_ | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                                      callable.takes_out ? OutKeyword() : nullptr));
  if (tuple.is_valid()) first_[positional_] = array;
  return returned;
}

void CollectGarbage() {
  try {
    nb::module_::import_("gc").attr("collect")();
  } catch (nb::python_error&) {  // then the arguments count as kept
  }
}

Status KeptError(const Spec& spec, const PythonCallable& callable, const std::string& how) {
  return Status::PyOp(spec.Who() + ": " + spec.Callee() + " kept " + KeptText(callable) +
                      ", or a view of one, after the call, but its memory belongs to ONNX Runtime, "
                      "which reuses it. " +
                      HowToKeep(spec, how));
}

Status StillKeptError(const Spec& spec, const PythonCallable& callable, const std::string& how) {
  return Status::PyOp(spec.Who() + ": not run, since " + KeptText(callable) +
                      " that an earlier call kept is still held, by the operator or by code that "
                      "it was passed to (in a notebook also by '_' and 'Out'). " +
                      HowToKeep(spec, how));
}

}  // namespace opgraft::pyop
