// Counts runs and operator calls. Waiting for them is done by polling, since it happens only at
// exit.
#include "python/call/exit_gate.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "python/call/python_api.h"

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

using std::chrono::milliseconds;

/// How long the exit waits for runs to end by themselves.
constexpr milliseconds kGrace{1000};
/// How long it then waits for threads inside the runtime itself, which cannot be parked.
constexpr milliseconds kLongest{10000};

/// If no thread begins an operator for this long, none is expected to. The time is longer if some
/// threads are in operators: others may then be waiting for a core on a busy machine.
constexpr milliseconds kQuiet{20};
constexpr milliseconds kQuietOfBusy{250};

std::atomic<int> runs = 0;
std::atomic<int> operator_calls = 0;
std::atomic<bool> is_closed = false;
std::atomic<bool> is_closed_for_operators = false;
std::atomic<std::thread::id> closer;

/// Runs begun after the gate was closed, by threads that are allowed to. Their operators may be
/// called by any thread of the runtime.
std::atomic<int> late_runs = 0;
thread_local int late_runs_of_thread = 0;

template <class Condition>
void Await(milliseconds longest, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// atexit functions that were registered before Opgraft's run after the gate is closed. They may
/// run sessions, and wait for threads that do. Python does not wait for daemon threads, nor for
/// threads that it has not started, which it also reports as daemons.
bool MayRunLate() {
  if (closer.load() == std::this_thread::get_id()) return true;
  try {
    const nb::object thread = nb::module_::import_("threading").attr("current_thread")();
    return !nb::cast<bool>(thread.attr("daemon"));
  } catch (const std::exception&) {
    return false;
  }
}

/// Threads inside the runtime itself cannot be parked: waits until each has left it or is in an
/// operator. All calls of this function together wait for kLongest at most.
void AwaitRuns() {
  static std::atomic<milliseconds> patience = kLongest;
  const auto start = std::chrono::steady_clock::now();
  Await(patience.load(), [] { return runs <= operator_calls; });
  const auto waited = std::chrono::steady_clock::now() - start;
  patience = patience.load() - std::chrono::duration_cast<milliseconds>(waited);
}

/// Does not return while operators must not continue. Releases the GIL meanwhile, if this thread
/// holds it. A late run wakes all threads, since it may depend on them or they may belong to it;
/// LeaveRun waits for those of other runs when the late run ends.
void ParkAtExit() {
  const auto may_not_go_on = [] { return is_closed_for_operators && late_runs == 0; };
  if (!may_not_go_on() || closer.load() == std::this_thread::get_id()) return;
  const auto wait = [&] {
    while (may_not_go_on()) std::this_thread::sleep_for(milliseconds(1));
  };
  if (HoldsGil()) {
    WithoutGil(wait);
  } else {
    wait();
  }
}

}  // namespace

void Park() noexcept {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

void EnterRun() {
  ++runs;
  if (!is_closed) return;
  if (!MayRunLate()) {
    --runs;
    PyEval_SaveThread();
    Park();
  }
  ++late_runs_of_thread;
  ++late_runs;
}

void LeaveRun() {
  --runs;
  if (late_runs_of_thread == 0) return;
  --late_runs_of_thread;
  // Daemon threads may have left their operators during the late run.
  if (--late_runs == 0) WithoutGil(AwaitRuns);
}

void CloseGate() {
  closer = std::this_thread::get_id();
  is_closed = true;
  WithoutGil([] {
    Await(kGrace, [] { return runs <= 0; });
    is_closed_for_operators = true;
    AwaitRuns();
  });
}

void CloseGateOfOperators() {
  closer = std::this_thread::get_id();
  is_closed_for_operators = true;
  // A thread that is still running will reach an operator, where it is counted and parked.
  int seen = 0;
  do {
    seen = operator_calls;
    std::this_thread::sleep_for(seen == 0 ? kQuiet : kQuietOfBusy);
  } while (operator_calls != seen);
}

void ResetGate() { runs = operator_calls = late_runs = late_runs_of_thread = 0; }

OperatorCall::OperatorCall() {
  ++operator_calls;
  ParkAtExit();
}

OperatorCall::~OperatorCall() {
  ParkAtExit();
  --operator_calls;
}

}  // namespace opgraft::pyop
