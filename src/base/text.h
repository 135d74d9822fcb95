// Text for messages: makes text from a model safe to show.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace opgraft {

/// Returns `text` as valid UTF-8: invalid bytes and control characters become "\xNN". The names in
/// a model may be any bytes, but messages that quote them must pass through C strings and into
/// Python.
std::string Readable(std::string_view text);

/// The same for a name, which must stay within a line: line breaks, tabs and characters that change
/// the direction of text become "\xNN" as well. A model can therefore not insert lines of its own
/// into a report, or into code that is printed for copying.
std::string ReadableName(std::string_view name);

/// Returns "2, ?, 3" for the dimensions 2, -1 (unknown) and 3.
std::string DimensionsText(std::span<const std::int64_t> dimensions);

}  // namespace opgraft
