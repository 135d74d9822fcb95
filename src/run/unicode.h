// Texts: between UTF-8, which ONNX Runtime has, and the 32-bit letters of NumPy; and as printed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opgraft::run {

/// False where Unicode has no such letter.
bool AppendUtf8(std::uint32_t letter, std::string* text);

/// False where `text` is no UTF-8.
bool FromUtf8(std::string_view text, std::u32string* letters);

/// As JSON writes it, so that spaces inside a text and between texts are told apart.
std::string FormatText(std::string_view text);

}  // namespace opgraft::run
