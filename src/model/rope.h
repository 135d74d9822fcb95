// Bytes to be written: slices of the original model, with small strings of our own in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace opgraft::model {

/// The bytes are assembled only once, at the end, so that weights are not copied before. Borrowed
/// slices must outlive the rope.
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
  std::vector<std::unique_ptr<const std::string>>
      owned_;  // the strings do not move when the vector grows
  std::size_t size_ = 0;
};

}  // namespace opgraft::model
