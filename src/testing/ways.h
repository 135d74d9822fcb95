// The ways in which a case is run, and the problems that were found.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// How much a model declares about the dimensions of its inputs.
enum class Dimensions { kFixed, kSymbolic, kUnknown };

struct Way {
  std::string name;
  Dimensions dimensions = Dimensions::kFixed;
  std::set<std::size_t> initializers = {};  ///< indices of inputs, besides the constant ones
  bool is_odd = false;
  bool is_between = false;
  bool asks_shapes = false;
  bool on_gpu = false;
};

/// The devices that a case is run on.
struct Devices {
  bool cpu = true;
  bool gpu = false;
};

std::vector<Way> WaysOf(const std::vector<OpTester::Value>& inputs, Devices devices);

/// Problems, each with the ways in which it occurs.
class Findings {
 public:
  void Add(const std::string& way, const std::string& problem);
  bool empty() const { return found_.empty(); }
  /// Returns one text for each problem, which begins with `who`. `ways` is the number of all ways.
  std::vector<std::string> Texts(const std::string& who, const std::string& where,
                                 std::size_t ways) const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> found_;
};

/// For as long as it lives, a crash prints `text`, which names the current way, before the process
/// ends.
class CrashNote {
 public:
  explicit CrashNote(const std::string& text);
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;
  ~CrashNote();
};

}  // namespace opgraft::op_test
#pragma GCC visibility pop
