// Values of a graph that are known before it runs, as far as arguments of operators need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace opgraft::model {

/// A constant of few numbers, or a text.
struct Constant {
  enum class Kind : std::uint8_t { kIntegers, kBools, kReals, kText };

  Kind kind = Kind::kIntegers;
  std::size_t rank = 0;
  std::vector<std::int64_t> integers;  ///< of kIntegers and kBools
  std::vector<double> reals;
  std::string_view text;  ///< of the model's bytes
};

/// The constants and the sequences that nodes of one graph make. Views of its bytes.
class Constants {
 public:
  /// `graph` must outlive this; it is only read where something is asked for.
  explicit Constants(std::string_view graph = {}) : graph_(graph) {}

  /// nullptr for what is no constant, or one of many numbers.
  const Constant* Find(std::string_view name);

  /// The members of what a SequenceConstruct makes; nullptr for anything else.
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
