// Writes large weights of a model in a file as references into that file instead of copies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/rope.h"

namespace opgraft::model {

class WeightReferences {
 public:
  /// `file_name` is the name of the file that holds `model`, in the folder that the runtime is told
  /// about; empty if no references are wanted.
  WeightReferences(std::string_view model, std::string_view file_name);

  /// If a reference to `tensor`, a TensorProto, is worthwhile, adds to `out` the tensor with its
  /// data at their position in the file, and returns true.
  bool Write(std::string_view tensor, Rope* out);

  /// The number of references written.
  std::size_t count() const { return count_; }

 private:
  const std::string_view model_;
  const std::string_view file_name_;
  std::size_t count_ = 0;
};

}  // namespace opgraft::model
