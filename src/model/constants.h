// Values of a graph that are known before it runs, as far as the arguments of operators need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace opgraft::model {

/// A constant: a few numbers, or a text.
struct Constant {
  enum class Kind : std::uint8_t { kIntegers, kBools, kReals, kText };

  Kind kind = Kind::kIntegers;
  std::size_t rank = 0;
  std::vector<std::int64_t> integers;  ///< for kIntegers and kBools
  std::vector<double> reals;
  std::string_view text;  ///< a view of the model's bytes
};

/// The constants of one graph, and the sequences that its nodes construct. Views of its bytes.
class Constants {
 public:
  /// `graph` must outlive this object; it is read when something is first looked up.
  explicit Constants(std::string_view graph = {}) : graph_(graph) {}

  /// Returns nullptr for a value that is not a constant, or that has many numbers.
  const Constant* Find(std::string_view name);

  /// Returns the members of a sequence made by SequenceConstruct; nullptr for any other value.
  const std::vector<std::string_view>* FindSequence(std::string_view name);

 private:
  void Read();
  void ReadNode(std::string_view node);

  std::string_view graph_;
  bool is_read_ = false;
  std::map<std::string_view, Constant> constants_;
  std::map<std::string_view, std::vector<std::string_view>> sequences_;
};

}  // namespace opgraft::model
