// An entry of a model's or a function's list of opset imports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opgraft::model {

struct OpsetImport {
  std::string_view domain;
  std::int64_t version = 0;
};

OpsetImport ReadOpsetImport(std::string_view bytes);
std::string WriteOpsetImport(const OpsetImport& import);

}  // namespace opgraft::model
