// Converts strings between ONNX Runtime's UTF-8 and NumPy's 32-bit characters, and prints them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opgraft::run {

/// Returns false if Unicode has no such character.
bool AppendUtf8(std::uint32_t character, std::string* text);

/// Returns false if `text` is not UTF-8.
bool FromUtf8(std::string_view text, std::u32string* characters);

/// Returns a text as JSON writes it, so that spaces inside a text differ from those between texts.
std::string FormatText(std::string_view text);

}  // namespace opgraft::run
