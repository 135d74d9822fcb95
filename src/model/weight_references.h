// Large weights of a model in a file, written as references into that file instead of copies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/rope.h"

namespace opgraft::model {

class WeightReferences {
 public:
  /// `file_name` is the name of the file that holds `model`, in the folder that the runtime is told
  /// of; empty where nothing is to be referred to.
  WeightReferences(std::string_view model, std::string_view file_name);

  /// Whether `tensor`, a TensorProto, is worth it; if so adds to `out` the tensor with its data
  /// outside, at the place that it has in the file.
  bool Write(std::string_view tensor, Rope* out);

  /// How many were written.
  std::size_t count() const { return count_; }

 private:
  const std::string_view model_;
  const std::string_view file_name_;
  std::size_t count_ = 0;
};

}  // namespace opgraft::model
