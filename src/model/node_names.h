// Makes unique names for nodes that have none: ONNX Runtime refuses two nodes with the same name.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

namespace opgraft::model {

class NodeNames {
 public:
  /// Names in `graph`, which must outlive this object, and in nested graphs are not used again. The
  /// graph is read when the first name is requested.
  explicit NodeNames(std::string_view graph = {}) : graph_(graph) {}

  /// Returns `wish`, with a number appended if the name is already taken.
  std::string Give(const std::string& wish);

 private:
  void Read();

  std::string_view graph_;
  bool is_read_ = false;
  std::unordered_set<std::string_view> found_;
  std::map<std::string, std::size_t> given_;  // and the highest number appended to each
};

}  // namespace opgraft::model
