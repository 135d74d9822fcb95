// Reads and writes arrays in NumPy's .npy files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::run {

/// An array in C order.
struct Array {
  std::int32_t element_type = 0;  ///< ONNX's number; 0 if the file does not contain it
  std::vector<std::int64_t> shape;
  std::string data;  ///< as in NumPy: elements smaller than a byte take up one byte each
  std::vector<std::string> strings = {};  ///< the elements of an array of strings; no `data` then
  std::size_t untyped_size = 0;           ///< bytes of an element of unknown type

  std::size_t Elements() const;
};

/// Whether .npy files hold elements of this type as untyped bytes, because NumPy itself does not
/// know it.
bool IsUntypedInNpy(std::int64_t element_type);

/// Reads a file of version 1 or 2, in C order and little-endian. Other files are an error that says
/// what they are.
Status ReadNpy(const std::string& path, Array* array);
Status WriteNpy(const std::string& path, const Array& array);

/// Returns "float32 (2, 3)" and, on the next line, the first elements.
std::string Format(const Array& array);

/// Returns element `index` as Format prints it.
std::string FormatAt(const Array& array, std::size_t index);

/// The most elements, or parts of a sequence, that are printed.
inline constexpr std::size_t kMostPrinted = 64;

}  // namespace opgraft::run
