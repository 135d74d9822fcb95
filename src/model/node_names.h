// Names for nodes that have none: ONNX Runtime refuses two nodes of one name.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

namespace opgraft::model {

class NodeNames {
 public:
  /// The names of `graph`, which must outlive this, and of the graphs inside it are not given. It
  /// is only read where a name is asked for.
  explicit NodeNames(std::string_view graph = {}) : graph_(graph) {}

  /// `wish`, with a number behind it where a node has that name already.
  std::string Give(const std::string& wish);

 private:
  void Read();

  std::string_view graph_;
  bool is_read_ = false;
  std::unordered_set<std::string_view> found_;
  std::map<std::string, std::size_t> given_;  // and how many of those with a number behind it
};

}  // namespace opgraft::model
