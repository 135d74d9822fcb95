// Calls the functions of the runtime's shape inference context.
#include "adapter/shapes.h"

#include <atomic>
#include <cstdint>

#include "adapter/calls.h"

namespace opgraft::ort {

Status ReadShape(const OrtApi* api, OrtShapeInferContext* context, std::size_t index, int* type,
                 SymbolicShape* shape) {
  OrtTensorTypeAndShapeInfo* info = nullptr;  // owned by the context
  Status status = FromRuntime(api, ShapeInferContext_GetInputTypeShape(api, context, index, &info));
  std::size_t rank = 0;
  if (status.ok()) status = FromRuntime(api, GetTensorElementType(api, info, type));
  if (status.ok()) status = FromRuntime(api, GetDimensionsCount(api, info, &rank));
  if (!status.ok() || rank == 0) return status;
  std::vector<std::int64_t> sizes(rank);
  std::vector<const char*> symbols(rank, "");
  status = FromRuntime(api, GetDimensions(api, info, sizes.data(), rank));
  if (status.ok()) {
    status = FromRuntime(api, GetSymbolicDimensions(api, info, symbols.data(), rank));
  }
  shape->emplace();
  for (std::size_t i = 0; i < rank; ++i) (*shape)->push_back({sizes[i], symbols[i]});
  return status;
}

Status WriteShape(const OrtApi* api, OrtShapeInferContext* context, const std::string& who,
                  std::size_t index, int type, const std::vector<Dimension>& shape) {
  static std::atomic<std::uint64_t> count = 0;  // so that no two open dimensions seem equal
  const std::string unknown = who + "_" + std::to_string(++count);
  std::vector<std::int64_t> sizes;
  std::vector<std::string> symbols;
  std::vector<const char*> names;
  for (const Dimension& dimension : shape) {
    sizes.push_back(dimension.size);
    symbols.push_back(dimension.size >= 0 ? "" : dimension.symbol);
    if (dimension.size < 0 && dimension.symbol.empty()) {
      symbols.back() = unknown + "_" + std::to_string(symbols.size());
    }
  }
  for (const std::string& symbol : symbols) names.push_back(symbol.c_str());
  OrtTensorTypeAndShapeInfo* info = nullptr;
  Status status = FromRuntime(api, CreateTensorTypeAndShapeInfo(api, &info));
  if (!status.ok()) return status;
  status = FromRuntime(api, SetTensorElementType(api, info, type));
  if (status.ok()) status = FromRuntime(api, SetDimensions(api, info, sizes.data(), sizes.size()));
  if (status.ok()) {
    status = FromRuntime(api, SetSymbolicDimensions(api, info, names.data(), names.size()));
  }
  if (status.ok()) {
    status = FromRuntime(api, ShapeInferContext_SetOutputTypeShape(api, context, index, info));
  }
  ReleaseTensorTypeAndShapeInfo(api, info);
  return status;
}

}  // namespace opgraft::ort
