// Text for messages: what comes from a model, made fit to be shown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace opgraft {

/// `text` as UTF-8: bytes that are none, and control characters, become "\xNN". A model's names may
/// be any bytes, but the messages that quote them must pass through C strings and into Python.
std::string Readable(std::string_view text);

/// The same for a name, which has its place within a line: line breaks, tabs and what turns the
/// direction of text become "\xNN" as well, so that a model cannot write lines of its own into a
/// report, or into code that is printed to be pasted.
std::string ReadableName(std::string_view name);

/// "2, ?, 3" for the dimensions 2, -1 (unknown) and 3.
std::string DimensionsText(std::span<const std::int64_t> dimensions);

}  // namespace opgraft
