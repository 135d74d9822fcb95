// By Python's vectorcall, which needs no tuple of arguments.
#include "pyop/invocation.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

/// The names of keyword arguments in a call with `out`.
PyObject* OutKeyword() {
  static PyObject* const names = PyTuple_Pack(1, PyUnicode_InternFromString("out"));
  return names;
}

/// What may have been kept, for messages.
std::string KeptText(const PythonCallable& callable) {
  return callable.takes_out ? "an input or 'out'" : "an input";
}

std::string HowToKeep(const Spec& spec, const std::string& how) {
  return "Fix: keep a copy (" + how + "), or let every input be one, with " +
         (spec.IsDeclared() ? "@opgraft.op(..., copy_inputs=True)"
                            : "the line 'copy_inputs = True' in the class");
}

}  // namespace

nb::object Invoke(const PythonCallable& callable, std::size_t positional, Arguments* arguments) {
  // Of several outputs, `out` is a tuple. It stands where its arrays begin, during the call alone.
  const auto out = static_cast<std::ptrdiff_t>(positional) + 1;
  const auto count = static_cast<std::ptrdiff_t>(arguments->size()) - out;
  nb::object tuple;
  if (callable.takes_out && count != 1) {
    tuple = nb::steal(PyTuple_New(count));
    if (!tuple.is_valid()) return {};
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      PyTuple_SET_ITEM(tuple.ptr(), i, Py_NewRef(*(arguments->begin() + out + i)));
    }
    arguments->insert(arguments->begin() + out, tuple.ptr());
  }
  nb::object returned = nb::steal(PyObject_Vectorcall(callable.compute.ptr(), arguments->data() + 1,
                                                      positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                                      callable.takes_out ? OutKeyword() : nullptr));
  if (tuple.is_valid()) arguments->erase(arguments->begin() + out);
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
                      ", or a view of one, beyond the call, but its memory is ONNX Runtime's and "
                      "is used again. " +
                      HowToKeep(spec, how));
}

Status StillKeptError(const Spec& spec, const PythonCallable& callable, const std::string& how) {
  return Status::PyOp(spec.Who() + ": not run, since " + KeptText(callable) +
                      " that an earlier call kept is still held, by the operator or by someone "
                      "it was handed to (in a notebook also by '_' and 'Out'). " +
                      HowToKeep(spec, how));
}

}  // namespace opgraft::pyop
