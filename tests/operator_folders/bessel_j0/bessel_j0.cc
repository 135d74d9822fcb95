// Declares ai.opgraft BesselJ0: an operator that tests/test_operator_folder.py adds to our packs.
#include <opgraft/op.h>

#include "ops/contrib/bessel_j0/bessel_j0_cpu.h"
#include "ops/contrib/bessel_j0/bessel_j0_cuda.h"
#include "ops/contrib/cuda_call.h"

namespace opgraft::contrib {
namespace {

OPGRAFT_TYPES(T, float, double);

OPGRAFT_OP("ai.opgraft::BesselJ0")
    .Doc("The Bessel function of the first kind of order 0, element by element.")
    .Input<T>("X", "any tensor")
    .Output<T>("Y", "of the same type and shape")
    .Attribute<float>("scale", 1, "what Y is multiplied by")
    .Shape(SameAs("X"))
    .Torch("aten::special_bessel_j0", {{"scale", 1.0}})
    .Cpu([](auto x, auto y, float scale) { BesselJ0(x.data(), y.data(), x.size(), scale); })
#ifdef OPGRAFT_CUDA
    .Cuda([](Context& context, auto x, auto y, float scale) {
      return ToStatus(BesselJ0Cuda(x.data(), y.data(), x.size(), scale, context.stream()));
    })
#endif
    ;

}  // namespace
}  // namespace opgraft::contrib
