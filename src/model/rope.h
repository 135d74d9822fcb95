// Bytes to be written, as slices of the original model with small strings of our own between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace opgraft::model {

/// Gathered only once, at the end, so that weights are never copied on the way.
/// Borrowed slices must outlive the rope.
class Rope {
 public:
  void Borrow(std::string_view slice);
  void Own(std::string text);
  void Append(Rope rope);
  /// Adds `message` as the protobuf field `tag`.
  void AddMessage(std::uint32_t tag, Rope message);

  std::size_t size() const { return size_; }
  std::string Gather() const;

 private:
  std::vector<std::string_view> slices_;
  std::vector<std::unique_ptr<const std::string>> owned_;  // stays put while the vector grows
  std::size_t size_ = 0;
};

}  // namespace opgraft::model
