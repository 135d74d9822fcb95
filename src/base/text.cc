// Scans for well-formed UTF-8 sequences, and writes lists of sizes.
#include "base/text.h"

#include <cstdint>

namespace opgraft {
namespace {

/// Whether a code point breaks a line or changes the direction of the text after it.
bool BreaksLine(std::uint32_t point) {
  return point == '\n' || point == '\t' || (point >= 0x80 && point < 0xA0) || point == 0x200E ||
         point == 0x200F || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

/// Returns the length of the well-formed sequence at the start of `text`; 0 if there is none.
std::size_t SequenceLength(std::string_view text, bool is_name) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const bool is_control = (byte(0) < 0x20 && byte(0) != '\n' && byte(0) != '\t') || byte(0) == 0x7F;
  if (byte(0) < 0x80) return is_control || (is_name && BreaksLine(byte(0))) ? 0 : 1;
  const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  std::uint32_t point = byte(0) & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
    point = point << 6U | (byte(i) & 0x3FU);
  }
  const bool is_too_long = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  const bool is_surrogate = point >= 0xD800 && point <= 0xDFFF;
  const bool is_broken = is_too_long || is_surrogate || point > 0x10FFFF;
  return is_broken || (is_name && BreaksLine(point)) ? 0 : length;
}

std::string Escaped(std::string_view text, bool is_name) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string readable;
  readable.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = SequenceLength(text, is_name);
    if (length > 0) {
      readable += text.substr(0, length);
    } else {
      const auto byte = static_cast<std::uint8_t>(text.front());
      readable += {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return readable;
}

}  // namespace

std::string Readable(std::string_view text) { return Escaped(text, /*is_name=*/false); }

std::string ReadableName(std::string_view name) { return Escaped(name, /*is_name=*/true); }

std::string DimensionsText(std::span<const std::int64_t> dimensions) {
  std::string text;
  for (const std::int64_t size : dimensions) {
    text += (text.empty() ? "" : ", ") + (size < 0 ? "?" : std::to_string(size));
  }
  return text;
}

}  // namespace opgraft
