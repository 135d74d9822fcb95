// Arrays in NumPy's .npy files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::run {

/// An array in C order.
struct Array {
  std::int32_t element_type = 0;  ///< ONNX's number
  std::vector<std::int64_t> shape;
  std::string data;

  std::size_t Elements() const;
};

/// Reads a file of version 1 or 2, in C order and little-endian; an error says what else it is.
Status ReadNpy(const std::string& path, Array* array);
Status WriteNpy(const std::string& path, const Array& array);

/// "float32 (2, 3)" and, on the next line, the first elements.
std::string Format(const Array& array);

}  // namespace opgraft::run
