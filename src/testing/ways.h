// The ways in which a case is run, and what they found.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// How much a model says of the dimensions of its inputs.
enum class Dimensions { kFixed, kSymbolic, kUnknown };

struct Way {
  std::string name;
  Dimensions dimensions = Dimensions::kFixed;
  std::set<std::size_t> initializers = {};  ///< inputs, by index, beside those that always are
  bool is_odd = false;
  bool is_between = false;
  bool asks_shapes = false;
  bool on_gpu = false;
};

/// What a case is to be run on.
struct Devices {
  bool cpu = true;
  bool gpu = false;
};

std::vector<Way> WaysOf(const std::vector<OpTester::Value>& inputs, Devices devices);

/// Problems, each with the ways that have it.
class Findings {
 public:
  void Add(const std::string& way, const std::string& problem);
  bool empty() const { return found_.empty(); }
  /// One text for each problem. `ways` is how many there were, `who` stands before it.
  std::vector<std::string> Texts(const std::string& who, const std::string& where,
                                 std::size_t ways) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

/// While it lives, a crash prints which way of running was at work before the process ends.
class CrashNote {
 public:
  explicit CrashNote(const std::string& text);
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;
  ~CrashNote();
};

}  // namespace opgraft::op_test
#pragma GCC visibility pop
