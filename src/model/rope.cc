// Implements the rope.
#include "model/rope.h"

#include <iterator>
#include <protozero/varint.hpp>
#include <utility>

namespace opgraft::model {

void Rope::Borrow(std::string_view slice) {
  slices_.push_back(slice);
  size_ += slice.size();
}

void Rope::Own(std::string text) {
  owned_.push_back(std::make_unique<const std::string>(std::move(text)));
  Borrow(*owned_.back());
}

void Rope::Append(Rope rope) {
  slices_.insert(slices_.end(), rope.slices_.begin(), rope.slices_.end());
  owned_.insert(owned_.end(), std::make_move_iterator(rope.owned_.begin()),
                std::make_move_iterator(rope.owned_.end()));
  size_ += rope.size_;
}

void Rope::AddMessage(std::uint32_t tag, Rope message) {
  constexpr std::uint32_t kLengthDelimited = 2;
  std::string head;
  protozero::write_varint(std::back_inserter(head), (tag << 3U) | kLengthDelimited);
  protozero::write_varint(std::back_inserter(head), message.size());
  Own(std::move(head));
  Append(std::move(message));
}

std::string Rope::Gather() const {
  std::string gathered;
  gathered.reserve(size_);
  for (const std::string_view slice : slices_) gathered.append(slice);
  return gathered;
}

}  // namespace opgraft::model
