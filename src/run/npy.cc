// The .npy format: a magic word, a header with the text of a Python dict, then the elements.
#include "run/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/element_type.h"
#include "base/text.h"
#include "core/platform.h"
#include "run/small_float.h"
#include "run/unicode.h"

namespace opgraft::run {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicSize = 6;
constexpr std::size_t kCharacterSize = sizeof(char32_t);
constexpr std::size_t kMostEmptyTexts = 100'000'000;

/// Returns the description in a file, such as "<f4"; empty if NumPy has no numbers of this type.
std::string DescriptionOf(const ElementType& type) {
  if (!type.is_carried || type.numpy_kind == 0 || type.size == 0) return {};
  return std::string(type.size == 1 ? "|" : "<") + type.numpy_kind + std::to_string(type.size);
}

/// Returns the text after `'key':` in the header, up to `end`; empty if the key is missing.
std::string_view Value(std::string_view header, std::string_view key, std::string_view end) {
  const std::size_t at = header.find(key);
  if (at == header.npos) return {};
  header.remove_prefix(at + key.size());
  return header.substr(0, header.find(end));
}

/// Returns the number at the end of a description such as "<U12"; 0 if it is of another kind.
std::size_t SizeIn(std::string_view description, std::string_view kinds) {
  if (description.size() < 3 || kinds.find(description[1]) == kinds.npos) return 0;
  if (description[0] != '<' && description[0] != '|') return 0;
  std::size_t size = 0;
  for (const char digit : description.substr(2)) {
    if (digit < '0' || digit > '9' || size > 100'000'000) return 0;
    size = size * 10 + static_cast<std::size_t>(digit - '0');
  }
  return size;
}

Status ParseHeader(std::string_view header, Array* array, std::size_t* element_size) {
  const std::string_view description = Value(header, "'descr': '", "'");
  const auto known =
      std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                   [&](const ElementType& type) { return DescriptionOf(type) == description; });
  const std::size_t text_size = SizeIn(description, "U");
  array->untyped_size = SizeIn(description, "V");
  if (text_size > 0 || description == "<U0") {
    array->element_type = kString;
    *element_size = text_size * kCharacterSize;
  } else if (array->untyped_size > 0) {
    *element_size = array->untyped_size;
  } else if (!description.empty() && known != std::end(kElementTypes)) {
    array->element_type = known->number;
    *element_size = known->size;
  } else if (description == "|O") {
    return Status::Error(
        "it holds pickled Python objects, which are not read because they may run code. Fix: save "
        "an array "
        "of numbers, or of texts by array.astype(str)");
  } else {
    return Status::Error("its elements are of type '" + std::string(description) +
                         "', expected bool, integers, floats or str, little-endian");
  }
  if (!Value(header, "'fortran_order': ", ",").starts_with("False")) {
    return Status::Error("it is in Fortran order. Fix: save numpy.ascontiguousarray(array)");
  }
  if (header.find("'shape': (") == header.npos) return Status::Error("it has no shape");
  std::string shape(Value(header, "'shape': (", ")"));
  array->shape.clear();
  for (const char* at = shape.c_str(); *at != '\0';) {
    char* end = nullptr;
    const long long size = std::strtoll(at, &end, 10);
    if (end == at || size < 0) return Status::Error("its shape is (" + shape + ")");
    array->shape.push_back(size);
    at = end + std::strspn(end, ", ");
  }
  return Status();
}

/// Converts NumPy's 32-bit characters, padded with zeros, to UTF-8.
Status ReadTexts(std::size_t size, Array* array) {
  // Empty strings take up no bytes, so that the size of the file does not bound their number.
  if (size == 0 && array->Elements() > kMostEmptyTexts) return Status::Error("it is too large");
  array->strings.resize(array->Elements());
  for (std::size_t i = 0; i < array->strings.size(); ++i) {
    std::u32string characters(size / kCharacterSize, U'\0');
    if (size > 0) std::memcpy(characters.data(), &array->data[i * size], size);
    characters.resize(characters.find_last_not_of(U'\0') + 1);  // a zero in the middle is text
    for (const char32_t character : characters) {
      if (!AppendUtf8(character, &array->strings[i])) {
        return Status::Error("it holds a character that Unicode does not have");
      }
    }
  }
  array->data.clear();
  return Status();
}

/// Converts UTF-8 to NumPy's characters. A string that is not UTF-8, or ends in a zero, cannot be
/// represented.
Status WriteTexts(const Array& array, std::string* data, std::size_t* characters) {
  std::vector<std::u32string> texts;
  for (const std::string& string : array.strings) {
    std::u32string text;
    if (!FromUtf8(string, &text) || text.ends_with(U'\0')) {
      return Status::Error(".npy files cannot hold the string " + FormatText(string));
    }
    *characters = std::max(*characters, text.size());
    texts.push_back(std::move(text));
  }
  for (std::u32string& text : texts) {
    text.resize(*characters, U'\0');
    data->append(reinterpret_cast<const char*>(text.data()), text.size() * kCharacterSize);
  }
  return Status();
}

Status ParseNpy(std::string_view file, Array* array) {
  if (file.size() < kMagicSize + 6 || !file.starts_with(kMagic)) {
    return Status::Error("it is not a .npy file");
  }
  const bool is_long = file[kMagicSize] >= 2;
  const std::size_t start = kMagicSize + 2 + (is_long ? 4 : 2);
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + kMagicSize + 2, is_long ? 4 : 2);
  if (length > file.size() - start) return Status::Error("it is truncated");
  std::size_t element_size = 0;
  Status status = ParseHeader(file.substr(start, length), array, &element_size);
  if (!status.ok()) return status;
  array->data = file.substr(start + length);
  std::size_t expected = element_size;
  for (const std::int64_t size : array->shape) {
    if (__builtin_mul_overflow(expected, static_cast<std::size_t>(size), &expected)) {
      return Status::Error("its shape is too large");
    }
  }
  if (array->data.size() == expected) {
    return array->element_type == kString ? ReadTexts(element_size, array) : Status();
  }
  return Status::Error("it holds " + std::to_string(array->data.size()) +
                       " bytes of elements, expected " + std::to_string(expected));
}

template <class Element>
Element Load(const char* at) {
  Element element;
  std::memcpy(&element, at, sizeof(element));
  return element;
}

std::string FormatFloat(const char* format, double value) {
  char text[40];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string FormatElement(std::int32_t element_type, const char* at) {
  switch (element_type) {
    case 1: return FormatFloat("%.9g", Load<float>(at));
    case 2: return std::to_string(Load<std::uint8_t>(at));
    case 3: return std::to_string(Load<std::int8_t>(at));
    case 4: return std::to_string(Load<std::uint16_t>(at));
    case 5: return std::to_string(Load<std::int16_t>(at));
    case 6: return std::to_string(Load<std::int32_t>(at));
    case 7: return std::to_string(Load<std::int64_t>(at));
    case 9: return Load<std::uint8_t>(at) != 0 ? "True" : "False";
    case 11: return FormatFloat("%.17g", Load<double>(at));
    case 12: return std::to_string(Load<std::uint32_t>(at));
    case 13: return std::to_string(Load<std::uint64_t>(at));
    case 21: return std::to_string(Load<std::uint8_t>(at) & 15);
    case 22: return std::to_string(((Load<std::uint8_t>(at) & 15) ^ 8) - 8);
    default: break;
  }
  if (!IsSmallFloat(element_type)) return "?";
  const bool is_wide = FindElementType(element_type)->size == sizeof(std::uint16_t);
  const std::uint32_t bits = is_wide ? Load<std::uint16_t>(at) : Load<std::uint8_t>(at);
  return FormatFloat("%.9g", SmallFloat(element_type, bits));
}

}  // namespace

bool IsUntypedInNpy(std::int64_t element_type) {
  const ElementType* const type = FindElementType(element_type);
  return type != nullptr && type->is_carried && type->numpy_kind == 0;
}

std::size_t Array::Elements() const {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  return elements;
}

Status ReadNpy(const std::string& path, Array* array) {
  std::string file;
  Status status = platform::ReadFile(path, &file);
  if (status.ok()) status = ParseNpy(file, array);
  return status.ok() ? status : Status::Error("input '" + path + "': " + status.message());
}

Status WriteNpy(const std::string& path, const Array& array) {
  const ElementType* const type = FindElementType(array.element_type);
  std::string description = type != nullptr ? DescriptionOf(*type) : "";
  std::string texts;
  if (array.element_type == kString) {
    std::size_t characters = 0;
    Status status = WriteTexts(array, &texts, &characters);
    if (!status.ok()) return Status::Error("'" + path + "': " + status.message());
    description = "<U" + std::to_string(characters);
  } else if (IsUntypedInNpy(array.element_type)) {
    description = "|V" + std::to_string(type->size);
  } else if (description.empty()) {
    return Status::Error("'" + path + "': .npy files hold no " +
                         ElementTypeName(array.element_type));
  }
  const std::string comma = array.shape.size() == 1 ? "," : "";
  std::string header = "{'descr': '" + description + "', 'fortran_order': False, 'shape': (" +
                       DimensionsText(array.shape) + comma + "), }";
  constexpr std::size_t kAlignment = 64;  // of the elements, as in files that NumPy writes
  const std::size_t start = kMagicSize + 4;
  header.resize((start + header.size() + kAlignment) / kAlignment * kAlignment - start - 1, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, kMagicSize).write("\x01\x00", 2);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header << array.data << texts;
  return file.flush() ? Status()
                      : Status::Error("cannot write '" + path + "': " + std::strerror(errno));
}

std::string FormatAt(const Array& array, std::size_t index) {
  if (array.element_type == kString) return FormatText(array.strings[index]);
  const ElementType* type = FindElementType(array.element_type);
  return FormatElement(array.element_type, &array.data[index * type->size]);
}

std::string Format(const Array& array) {
  std::string text =
      ElementTypeName(array.element_type) + " (" + DimensionsText(array.shape) + ")\n";
  const std::size_t elements = array.Elements();
  for (std::size_t i = 0; i < std::min(elements, kMostPrinted); ++i) {
    text += (i > 0 ? " " : "") + FormatAt(array, i);
  }
  return text + (elements > kMostPrinted ? " ..." : "");
}

}  // namespace opgraft::run
