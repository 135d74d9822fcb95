// UTF-8 both ways, without what is overlong, too large or half of a pair.
#include "run/unicode.h"

#include <cstdio>

namespace opgraft::run {
namespace {

bool IsLetter(std::uint32_t letter) {
  return letter <= 0x10FFFF && (letter < 0xD800 || letter > 0xDFFF);
}

}  // namespace

bool AppendUtf8(std::uint32_t letter, std::string* text) {
  if (!IsLetter(letter)) return false;
  if (letter < 0x80) {
    *text += static_cast<char>(letter);
    return true;
  }
  const unsigned more = letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;  // bytes after the first
  *text += static_cast<char>((0xF00U >> (more + 1) & 0xFFU) | letter >> (6 * more));
  for (unsigned i = more; i-- > 0;) {
    *text += static_cast<char>(0x80U | (letter >> (6 * i) & 0x3FU));
  }
  return true;
}

bool FromUtf8(std::string_view text, std::u32string* letters) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (text.size() < length) return false;
    std::uint32_t letter = length == 1 ? first : first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
      letter = letter << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
    }
    // Whatever the bytes were, they are right if the letter is written so.
    std::string again;
    if (!AppendUtf8(letter, &again) || again != text.substr(0, length)) return false;
    letters->push_back(static_cast<char32_t>(letter));
    text.remove_prefix(length);
  }
  return true;
}

std::string FormatText(std::string_view text) {
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  std::string formatted = "\"";
  for (const char letter : text) {
    const std::size_t named = kNamed.find(letter);
    if (named != kNamed.npos) {
      formatted += {'\\', kNames[named]};
    } else if (static_cast<unsigned char>(letter) < ' ') {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(letter));
      formatted += escape;
    } else {
      formatted += letter;
    }
  }
  return formatted + "\"";
}

}  // namespace opgraft::run
