// Calls a Python operator's function, wherever its arrays are: on the CPU, on a GPU, or in torch's
// tensors.
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

#include "bridge/bridge.h"
#include "core/platform.h"
#include "model/python_spec.h"
#include "opgraft/status.h"
#include "python/call/callable.h"
#include "python/call/exit_gate.h"
#include "python/call/failure.h"
#include "python/call/gil.h"
#include "python/call/shape_rule.h"

namespace opgraft::pyop {

/// The arguments of one call, as Python objects: the positional ones, then the arrays of `out`. A
/// small number of them needs no allocation. Needs the GIL.
class Arguments {
 public:
  /// `most` is the largest number of arguments that will be added.
  explicit Arguments(std::size_t most) {
    if (most + 2 > few_.size()) many_.resize(most + 2);
    first_ = many_.empty() ? few_.data() + 1 : many_.data() + 1;
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() { Clear(); }

  /// Takes ownership of the reference.
  void Add(PyObject* argument) { first_[count_++] = argument; }
  /// The arguments that are added after this are the arrays of `out`.
  void EndPositional() { positional_ = count_; }

  std::span<PyObject* const> all() const { return {first_, count_}; }
  std::span<PyObject* const> out() const { return all().subspan(positional_); }
  void Clear() {
    while (count_ > 0) Py_DECREF(first_[--count_]);
  }

  /// Calls Python. The result is invalid, with a Python error set, if that fails.
  nanobind::object Invoke(const PythonCallable& callable);

 private:
  std::array<PyObject*, 8> few_;
  std::vector<PyObject*> many_;
  PyObject** first_;  // vectorcall may write a bound method's object into the element before it
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
      Park();  // here, before ~ScopedGil releases a GIL that this thread does not hold
    }
  } catch (const std::exception& exception) {
    return Status::Error(spec.Who() + ": " + exception.what());
  } catch (const platform::ThreadExit&) {
    Park();
  }
}

/// Calls gc.collect(), which works even if the collector is disabled. Needs the GIL.
void CollectGarbage();

/// Waits, but not for long, until `is_kept` returns false: after the call, a thread of the operator
/// may still hold an argument that it is about to drop. Needs the GIL.
template <class IsKept>
void AwaitRelease(const IsKept& is_kept) {
  constexpr int kGraceSteps = 20;  // of a millisecond
  constexpr int kCollectEvery = 5;
  for (int step = 0; step < kGraceSteps && is_kept(); ++step) {
    // Unreachable cycles are not the operator's fault. One collection may not be enough: it returns
    // at once if another thread is already collecting.
    if (step % kCollectEvery == 0) CollectGarbage();
    WithoutGil([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  }
}

/// The errors for an operator that has kept an argument, found after the call or before the next
/// one. `how` says how to copy an array.
Status KeptError(const Spec& spec, const PythonCallable& callable, const std::string& how);
Status StillKeptError(const Spec& spec, const PythonCallable& callable, const std::string& how);

/// Makes one call, with the GIL held. `Turn` is the part that depends on where the arrays are. It
/// serves this call only:
///   inputs()               returns a TensorView for each input
///   HoldsArguments()       returns whether arguments of an earlier call are still held
///   HowToCopy()            returns how to copy an array, for messages
///   KeepsFrames()          as in Failure
///   Begin(inferred)        is called before the arguments are made; nullptr if there is no shape
///   rule Make(index, status)    makes an argument; nullptr with the status or a Python error set
///   MakeOut(arguments)     adds the arrays of `out`
///   Store(returned, out)   stores what the function returned
///   Release(arguments)     releases the arguments; returns false if the operator has kept some
///   Finish()               is called last, if there was no error
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
