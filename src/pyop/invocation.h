// The call of a Python operator's function, wherever its arrays lie: on the CPU, on a GPU, or in
// tensors of torch's.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/platform.h"
#include "opgraft/status.h"
#include "pyop/bridge.h"
#include "pyop/callable.h"
#include "pyop/exit_gate.h"
#include "pyop/failure.h"
#include "pyop/gil.h"
#include "pyop/shape_rule.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// The arguments of one call, as Python objects: the positional ones, then the arrays of `out`. Few
/// of them cost no memory. Needs the GIL.
class Arguments {
 public:
  /// There will be so many at most.
  explicit Arguments(std::size_t most) {
    if (most + 2 > few_.size()) many_.resize(most + 2);
    first_ = many_.empty() ? few_.data() + 1 : many_.data() + 1;
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() { Clear(); }

  /// Takes a reference.
  void Add(PyObject* argument) { first_[count_++] = argument; }
  /// What is added from now on is `out`.
  void EndPositional() { positional_ = count_; }

  std::span<PyObject* const> all() const { return {first_, count_}; }
  std::span<PyObject* const> out() const { return all().subspan(positional_); }
  void Clear() {
    while (count_ > 0) Py_DECREF(first_[--count_]);
  }

  /// Calls Python. Invalid with a Python error set.
  nanobind::object Invoke(const PythonCallable& callable);

 private:
  std::array<PyObject*, 8> few_;
  std::vector<PyObject*> many_;
  PyObject** first_;  // the place before it is free for a bound method to put its object into
  std::size_t count_ = 0;
  std::size_t positional_ = 0;
};

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

/// One call, with the GIL held. `Turn` is what differs from place to place, for this call alone:
///   inputs()               a TensorView for each
///   HoldsArguments()       whether arguments of an earlier call are still held
///   HowToCopy()            for messages, how to copy an array
///   KeepsFrames()          as in Failure
///   Begin(inferred)        what comes before the arguments; nullptr where there is no shape rule
///   Make(index, status)    an argument; nullptr with the status, or a Python error, set
///   MakeOut(arguments)     adds the arrays of `out`
///   Store(returned, out)   takes what came back
///   Release(arguments)     lets go of them; false where the operator has kept some
///   Finish()               what comes last, where all is well
/// All may throw nb::python_error.
template <class Turn>
Status CallFunction(const Spec& spec, const PythonCallable& callable, ShapeRule* rule, Turn& turn) {
  if (turn.HoldsArguments()) return StillKeptError(spec, callable, turn.HowToCopy());
  const std::span<const TensorView> inputs = turn.inputs();
  std::shared_ptr<const InferredShapes> inferred;
  if (rule != nullptr) {
    if (Status status = rule->Apply(inputs, &inferred); !status.ok()) return status;
  }
  turn.Begin(inferred.get());
  Arguments arguments(inputs.size() + (callable.takes_out ? spec.output_types.size() : 0));
  Status problem;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PyObject* const argument =
        inputs[i].data != nullptr ? turn.Make(i, &problem) : Py_NewRef(Py_None);
    if (argument == nullptr) {
      return problem.ok() ? Failure(true).ToStatus(spec.Who() + ": the array of an input", true)
                          : problem;
    }
    arguments.Add(argument);
  }
  arguments.EndPositional();
  if (callable.takes_out) {
    if (Status status = turn.MakeOut(&arguments); !status.ok()) {
      turn.Release(&arguments);
      return status;
    }
  }
  nanobind::object returned = arguments.Invoke(callable);
  if (!returned.is_valid()) {
    const Failure failure(turn.KeepsFrames());
    // An exception that holds an argument is not kept: it would outlive the memory.
    const bool is_released = turn.Release(&arguments);
    return failure.ToStatus(spec.Who() + ": " + spec.Callee(), is_released);
  }
  Status stored = turn.Store(returned, arguments.out());
  returned.reset();
  const bool is_released = turn.Release(&arguments);
  if (!stored.ok()) return stored;
  return is_released ? turn.Finish() : KeptError(spec, callable, turn.HowToCopy());
}

}  // namespace opgraft::pyop
