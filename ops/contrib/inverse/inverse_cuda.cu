// Inverts matrices on the GPU: chooses the kernel by size.
#include "ops/contrib/inverse/inverse_cuda.h"
#include "ops/contrib/inverse/inverse_parts.cuh"

namespace opgraft::contrib {

template <class T>
CudaError InverseCuda(const T* matrices, T* inverses, std::size_t n, std::size_t count,
                      const DeviceScratch& scratch, CudaStream stream) {
  if (n == 0 || count == 0) return nullptr;
  using Element = Stored<T>;
  const auto* const from = reinterpret_cast<const Element*>(matrices);
  auto* const to = reinterpret_cast<Element*>(inverses);
  if (n <= kLargestInWarp<Element>) return InvertInWarps(from, to, n, count, stream);
  if (n <= kLargestInBlock<Element>) return InvertInBlocks(from, to, n, count, stream);
  CudaError error = nullptr;
  if (n >= kLeastByLibrary && InvertByLibrary(from, to, n, count, scratch, stream, &error)) {
    return error;
  }
  return InvertInMemory(from, to, n, count, scratch, stream);
}

#define OPGRAFT_INSTANTIATE(T)                                                                 \
  template CudaError InverseCuda(const T*, T*, std::size_t, std::size_t, const DeviceScratch&, \
                                 CudaStream);
OPGRAFT_INSTANTIATE(float)
OPGRAFT_INSTANTIATE(double)
OPGRAFT_INSTANTIATE(Float16)
#undef OPGRAFT_INSTANTIATE

}  // namespace opgraft::contrib
