// A list of texts in one, for runtimes that hand custom operators no lists of texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opgraft {

/// The name of the STRING attribute that stands for the STRINGS attribute `name`.
inline std::string PackedName(std::string_view name) {
  return "opgraft.texts." + std::string(name);
}

/// Each text's length, a colon, and the text.
std::string PackTexts(const std::vector<std::string_view>& texts);

/// False for what PackTexts has not made.
bool UnpackTexts(std::string_view packed, std::vector<std::string>* texts);

}  // namespace opgraft
