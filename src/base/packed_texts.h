// A list of texts in one text, for runtimes that do not pass lists of texts to custom operators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opgraft {

/// The name of the STRING attribute that stands for the STRINGS attribute `name`.
inline std::string PackedName(std::string_view name) {
  return "opgraft.texts." + std::string(name);
}

/// Writes each text as its length, a colon and the text.
std::string PackTexts(const std::vector<std::string_view>& texts);

/// Returns false if `packed` was not written by PackTexts.
bool UnpackTexts(std::string_view packed, std::vector<std::string>* texts);

}  // namespace opgraft
