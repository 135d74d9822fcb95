// Counts runs and operators; waits for them by looking again and again, since it does so once.
#include "pyop/exit_gate.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace opgraft::pyop {
namespace {

using std::chrono::milliseconds;

/// How long the exit waits for runs that may well be over soon.
constexpr milliseconds kGrace{1000};
/// How long it then waits for those that are in the runtime itself, which cannot be parked.
constexpr milliseconds kLongest{10000};

/// Threads of a program that begin no operator for so long are not about to.
constexpr milliseconds kQuiet{20};

std::atomic<int> runs = 0;
std::atomic<int> operator_calls = 0;
std::atomic<bool> is_closed = false;
std::atomic<bool> is_closed_for_operators = false;
std::atomic<std::thread::id> closer;

template <class Condition>
void Await(milliseconds longest, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// Does not return once operators may not go on. The GIL, where this thread has it, is let go.
void ParkAtExit() {
  if (!is_closed_for_operators || closer.load() == std::this_thread::get_id()) return;
  if (PyGILState_Check() != 0) PyEval_SaveThread();
  Park();
}

}  // namespace

void Park() noexcept {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

void EnterRun() {
  ++runs;
  if (is_closed && closer.load() != std::this_thread::get_id()) {
    --runs;
    PyEval_SaveThread();
    Park();
  }
}

void LeaveRun() { --runs; }

void CloseGate() {
  closer = std::this_thread::get_id();
  is_closed = true;
  WithoutGil([] {
    Await(kGrace, [] { return runs <= 0; });
    is_closed_for_operators = true;
    Await(kLongest, [] { return runs <= operator_calls; });
  });
}

void CloseGateOfOperators() {
  closer = std::this_thread::get_id();
  is_closed_for_operators = true;
  // Who runs on will come by, be parked and be counted.
  int seen = 0;
  do {
    seen = operator_calls;
    std::this_thread::sleep_for(kQuiet);
  } while (operator_calls != seen);
}

void ResetGate() { runs = operator_calls = 0; }

OperatorCall::OperatorCall() {
  ++operator_calls;
  ParkAtExit();
}

OperatorCall::~OperatorCall() {
  ParkAtExit();
  --operator_calls;
}

}  // namespace opgraft::pyop
