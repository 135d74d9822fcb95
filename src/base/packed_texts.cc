// Writes and reads texts with their lengths first, so that a text may contain anything.
#include "base/packed_texts.h"

#include <charconv>
#include <utility>

namespace opgraft {

std::string PackTexts(const std::vector<std::string_view>& texts) {
  std::string packed;
  for (const std::string_view text : texts) {
    packed += std::to_string(text.size()) + ":";
    packed += text;
  }
  return packed;
}

bool UnpackTexts(std::string_view packed, std::vector<std::string>* texts) {
  std::vector<std::string> read;
  const char* next = packed.data();
  const char* const end = next + packed.size();
  while (next != end) {
    std::size_t size = 0;
    const auto [colon, error] = std::from_chars(next, end, size);
    if (error != std::errc() || colon == end || *colon != ':') return false;
    if (size > static_cast<std::size_t>(end - colon - 1)) return false;
    read.emplace_back(colon + 1, size);
    next = colon + 1 + size;
  }
  *texts = std::move(read);
  return true;
}

}  // namespace opgraft
