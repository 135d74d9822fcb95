// Lists the ways, and reports each problem once, with all ways in which it occurs.
#include "ways.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace opgraft::op_test {
namespace {

/// The most ways in which a single input is an initializer; bounds them for operators with many
/// inputs.
constexpr std::size_t kMostSingleInitializers = 4;

constexpr std::array<int, 5> kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
std::array<struct sigaction, kSignals.size()> former_actions;
std::array<char, 512> crash_text;
std::size_t crash_text_size = 0;

void RestoreActions() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &former_actions[i], nullptr);
  }
}

/// When this returns, the crash occurs again and reaches the handler that was installed before.
void TellCrash(int /*signal*/) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, crash_text.data(), crash_text_size);
  RestoreActions();
}

std::vector<Way> WaysOnTheCpu(const std::vector<OpTester::Value>& inputs) {
  std::set<std::size_t> fed;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].name.empty() && !inputs[i].is_constant) fed.insert(i);
  }
  std::vector<Way> ways;
  if (fed.empty()) {
    ways.push_back({.name = "no inputs fed"});
  } else {
    ways.push_back({.name = "inputs fed, dimensions fixed", .asks_shapes = true});
    ways.push_back({.name = "inputs fed, dimensions symbolic",
                    .dimensions = Dimensions::kSymbolic,
                    .asks_shapes = true});
    ways.push_back({.name = "inputs fed, ranks unknown",
                    .dimensions = Dimensions::kUnknown,
                    .asks_shapes = true});
    ways.push_back({.name = "inputs fed at odd addresses", .is_odd = true});
    ways.push_back({.name = "all inputs initializers", .initializers = fed});
  }
  if (fed.size() > 1) {
    for (const std::size_t index : fed) {
      if (ways.size() >= 5 + kMostSingleInitializers) break;
      ways.push_back({.name = "input '" + inputs[index].name + "' an initializer, others fed",
                      .dimensions = Dimensions::kSymbolic,
                      .initializers = {index}});
    }
  }
  ways.push_back({.name = "between other nodes, whose memory may be reused", .is_between = true});
  return ways;
}

}  // namespace

std::vector<Way> WaysOf(const std::vector<OpTester::Value>& inputs, Devices devices) {
  std::vector<Way> ways;
  for (const Way& way : WaysOnTheCpu(inputs)) {
    if (devices.cpu) ways.push_back(way);
  }
  for (Way& way : WaysOnTheCpu(inputs)) {
    if (!devices.gpu || way.is_odd) continue;  // a copy to the GPU loses the odd address
    way.name += ", on the GPU";
    way.asks_shapes = false;  // no other node, so that the operator is sure to run on the GPU
    way.on_gpu = true;
    ways.push_back(std::move(way));
  }
  return ways;
}

void Findings::Add(const std::string& way, const std::string& problem) {
  auto found = std::ranges::find(found_, problem, [](const auto& one) { return one.first; });
  if (found == found_.end()) found = found_.insert(found, {problem, {}});
  found->second.push_back(way);
}

std::vector<std::string> Findings::Texts(const std::string& who, const std::string& where,
                                         std::size_t ways) const {
  std::vector<std::string> texts;
  for (const auto& [problem, found_in] : found_) {
    std::string text = who + ": " + problem + "\n  in " + where + ", ";
    if (found_in.size() >= ways) {
      text += "in all " + std::to_string(ways) + " ways of running";
    } else {
      text += "only in these ways of running:";
      for (const std::string& way : found_in) text += "\n    " + way;
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

CrashNote::CrashNote(const std::string& text) {
  crash_text_size = std::min(text.size(), crash_text.size());
  std::memcpy(crash_text.data(), text.data(), crash_text_size);
  struct sigaction action = {};
  action.sa_handler = &TellCrash;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &former_actions[i]);
  }
}

CrashNote::~CrashNote() { RestoreActions(); }

}  // namespace opgraft::op_test
