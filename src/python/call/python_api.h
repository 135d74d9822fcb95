// What we need of Python's C API beyond the stable ABI. From Python 3.12 on one build of _pyop
// serves all versions: it is compiled for the stable ABI, and finds here by name, at run time, the
// few public functions that the stable ABI leaves out.
#pragma once

#include <Python.h>

#include <string>

#include "opgraft/status.h"

namespace opgraft::pyop {

/// Returns whether this thread holds the GIL.
bool HoldsGil();

/// Returns the main interpreter, the only one that Opgraft runs in.
PyInterpreterState* MainInterpreter();

/// Deletes the current thread state and releases the GIL.
void DeleteCurrentThreadState();

/// Returns the version of the Python that runs, which may be newer than the one compiled for, in
/// the form of PY_VERSION_HEX.
unsigned long RunningVersion();

/// Returns the name of a type as Python's own messages have it: 'list', 'numpy.ndarray'. May be
/// called with an exception set.
std::string TypeName(PyObject* type);

inline std::string TypeNameOf(PyObject* object) {
  return TypeName(reinterpret_cast<PyObject*>(Py_TYPE(object)));
}

/// Calls a callable with one argument; returns nullptr with an exception set on failure.
inline PyObject* CallWith(PyObject* callable, PyObject* argument) {
  PyObject* const arguments[] = {nullptr, argument};  // the first is for the callee's own use
  return PyObject_Vectorcall(callable, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

/// Replaces a reference that may be null, as Py_XSETREF does.
inline void Replace(PyObject** place, PyObject* object) {
  PyObject* const before = *place;
  *place = object;
  Py_XDECREF(before);
}

/// Starts Python as the command `program` would, without signal handlers. The GIL is held then.
Status StartInterpreter(const char* program);

}  // namespace opgraft::pyop
