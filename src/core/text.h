// Text that comes from a model, made fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace opgraft {

/// `text` as UTF-8: bytes that are none, and control characters, become "\xNN". A model's names may
/// be any bytes, but the messages that quote them must pass through C strings and into Python.
std::string Readable(std::string_view text);

}  // namespace opgraft
