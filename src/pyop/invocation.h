// The call of a Python operator's function, and what surrounds it, whatever arrays it takes.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "core/platform.h"
#include "opgraft/status.h"
#include "pyop/callable.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/gil.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// The arguments of one call, as Python objects; the first place is free for a bound method to put
/// its object into.
using Arguments = std::vector<PyObject*>;

/// Calls Python with so many positional arguments, and what follows them as `out`. Invalid with a
/// Python error set.
nanobind::object Invoke(const PythonCallable& callable, std::size_t positional,
                        Arguments* arguments);

/// Calls `body`, which returns a Status, with the GIL held and every C++ exception caught.
template <class Body>
Status WithGil(const Spec& spec, Body body) noexcept {
  try {
    const ScopedGil gil;
    try {
      return body();
    } catch (nanobind::python_error& error) {
      error.restore();
      return Failure(/*keep_frames=*/false).ToStatus(spec.Who() + ": a call of Python", true);
    } catch (const platform::ThreadExit&) {
      Park();  // here, before the GIL that Python has not given is given back
    }
  } catch (const std::exception& exception) {
    return Status::Error(spec.Who() + ": " + exception.what());
  } catch (const platform::ThreadExit&) {
    Park();
  }
}

/// As gc.collect() does, also where the collector is switched off. Needs the GIL.
void CollectGarbage();

/// Waits until `is_kept` says no, but not for long: after the call, an argument may still be held
/// by a thread of the operator's that is about to drop it. Needs the GIL.
template <class IsKept>
void AwaitRelease(const IsKept& is_kept) {
  constexpr int kGraceSteps = 20;  // of a millisecond
  constexpr int kCollectEvery = 5;
  for (int step = 0; step < kGraceSteps && is_kept(); ++step) {
    // Cycles that nobody holds are no fault of the operator's. Once may not do: a collection that
    // is under way in another thread makes this one return at once.
    if (step % kCollectEvery == 0) CollectGarbage();
    WithoutGil([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  }
}

/// The error of an operator that has kept what it was lent, after the call and before the next;
/// `how` says how to copy an array.
Status KeptError(const Spec& spec, const PythonCallable& callable, const std::string& how);
Status StillKeptError(const Spec& spec, const PythonCallable& callable, const std::string& how);

}  // namespace opgraft::pyop
