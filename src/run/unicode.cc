// Converts UTF-8 in both directions; refuses overlong forms, too large characters and surrogates.
#include "run/unicode.h"

#include <cstdio>

namespace opgraft::run {
namespace {

bool IsCharacter(std::uint32_t character) {
  return character <= 0x10FFFF && (character < 0xD800 || character > 0xDFFF);
}

}  // namespace

bool AppendUtf8(std::uint32_t character, std::string* text) {
  if (!IsCharacter(character)) return false;
  if (character < 0x80) {
    *text += static_cast<char>(character);
    return true;
  }
  const unsigned more = character < 0x800     ? 1
                        : character < 0x10000 ? 2
                                              : 3;  // bytes after the first
  *text += static_cast<char>((0xF00U >> (more + 1) & 0xFFU) | character >> (6 * more));
  for (unsigned i = more; i-- > 0;) {
    *text += static_cast<char>(0x80U | (character >> (6 * i) & 0x3FU));
  }
  return true;
}

bool FromUtf8(std::string_view text, std::u32string* characters) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (text.size() < length) return false;
    std::uint32_t character = length == 1 ? first : first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
      character = character << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
    }
    // The bytes are right if the character is written with exactly these bytes.
    std::string again;
    if (!AppendUtf8(character, &again) || again != text.substr(0, length)) return false;
    characters->push_back(static_cast<char32_t>(character));
    text.remove_prefix(length);
  }
  return true;
}

std::string FormatText(std::string_view text) {
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  std::string formatted = "\"";
  for (const char character : text) {
    const std::size_t named = kNamed.find(character);
    if (named != kNamed.npos) {
      formatted += {'\\', kNames[named]};
    } else if (static_cast<unsigned char>(character) < ' ') {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(character));
      formatted += escape;
    } else {
      formatted += character;
    }
  }
  return formatted + "\"";
}

}  // namespace opgraft::run
