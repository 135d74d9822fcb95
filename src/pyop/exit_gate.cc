// Counts runs and operators; waits for them by looking again and again, since it does so once.
#include "pyop/exit_gate.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace opgraft::pyop {
namespace {

using std::chrono::milliseconds;

/// How long the exit waits for runs that may well be over soon.
constexpr milliseconds kGrace{1000};
/// How long it then waits for those that are in the runtime itself, which cannot be parked.
constexpr milliseconds kLongest{10000};

/// Threads of a program that begin no operator for so long are not about to. Where some are in
/// operators there may be others, which a busy machine lets run but now and then.
constexpr milliseconds kQuiet{20};
constexpr milliseconds kQuietOfBusy{250};

std::atomic<int> runs = 0;
std::atomic<int> operator_calls = 0;
std::atomic<bool> is_closed = false;
std::atomic<bool> is_closed_for_operators = false;
std::atomic<std::thread::id> closer;

/// Runs that have begun after the gate was closed, by threads that may. Their operators are called
/// by any thread of the runtime.
std::atomic<int> late_runs = 0;
thread_local int late_runs_of_thread = 0;

template <class Condition>
void Await(milliseconds longest, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// Functions of atexit run after the gate is closed where they are older than Opgraft's. They may
/// run sessions, and have threads do so that they wait for. Python waits for no daemons, nor for
/// threads that it has not started, which it calls daemons too.
bool MayRunLate() {
  if (closer.load() == std::this_thread::get_id()) return true;
  try {
    const nb::object thread = nb::module_::import_("threading").attr("current_thread")();
    return !nb::cast<bool>(thread.attr("daemon"));
  } catch (const std::exception&) {
    return false;
  }
}

/// Those that are in the runtime itself cannot be parked: they are to be out of it, or in an
/// operator. Awaits that for kLongest at most, all calls together.
void AwaitRuns() {
  static std::atomic<milliseconds> patience = kLongest;
  const auto start = std::chrono::steady_clock::now();
  Await(patience.load(), [] { return runs <= operator_calls; });
  const auto waited = std::chrono::steady_clock::now() - start;
  patience = patience.load() - std::chrono::duration_cast<milliseconds>(waited);
}

/// Does not return while operators may not go on. The GIL, where this thread has it, is let go.
/// A late run wakes all: it may need the threads, or they be its own. Those of other runs are
/// awaited at its end.
void ParkAtExit() {
  const auto may_not_go_on = [] { return is_closed_for_operators && late_runs == 0; };
  if (!may_not_go_on() || closer.load() == std::this_thread::get_id()) return;
  const auto wait = [&] {
    while (may_not_go_on()) std::this_thread::sleep_for(milliseconds(1));
  };
  if (PyGILState_Check() != 0) {
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
  // Daemons have left their operators meanwhile.
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
  // Who runs on will come by, be parked and be counted.
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
