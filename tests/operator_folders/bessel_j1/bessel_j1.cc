// Declares ai.opgraft BesselJ1, all of it: a pack that tests/test_operator_folder.py adds to ours.
#include <math.h>
#include <opgraft/op.h>

namespace {

OPGRAFT_TYPES(T, float, double);

OPGRAFT_OP("ai.opgraft::BesselJ1")
    .Doc("The Bessel function of the first kind of order 1, element by element.")
    .Input<T>("X", "any tensor")
    .Output<T>("Y", "of the same type and shape")
    .Shape(opgraft::SameAs("X"))
    .Torch("aten::special_bessel_j1")
    .Cpu([]<class E>(opgraft::Tensor<const E> x, opgraft::Tensor<E> y) {
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<E>(j1(x[i]));
    });

}  // namespace
