// Arrays in NumPy's .npy files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::run {

/// An array in C order.
struct Array {
  std::int32_t element_type = 0;  ///< ONNX's number; 0 where the file does not tell it
  std::vector<std::int64_t> shape;
  std::string data;  ///< as NumPy has it: elements of less than a byte take up one each
  std::vector<std::string> strings = {};  ///< in place of `data` where that is the type
  std::size_t untyped_size = 0;           ///< bytes of an element whose type is not told

  std::size_t Elements() const;
};

/// Whether .npy files hold elements of this type as mere bytes, since NumPy itself does not know
/// it.
bool IsUntypedInNpy(std::int64_t element_type);

/// Reads a file of version 1 or 2, in C order and little-endian; an error says what else it is.
Status ReadNpy(const std::string& path, Array* array);
Status WriteNpy(const std::string& path, const Array& array);

/// "float32 (2, 3)" and, on the next line, the first elements.
std::string Format(const Array& array);

/// The element `index`, alone, as Format prints it.
std::string FormatAt(const Array& array, std::size_t index);

/// How many elements, or parts of a sequence, are printed at most.
inline constexpr std::size_t kMostPrinted = 64;

}  // namespace opgraft::run
