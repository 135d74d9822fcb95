// The inversion, compiled for CPUs with AVX2, FMA and F16C. All CPUs with AVX2 have F16C.
#define OPGRAFT_VECTOR_BYTES 32
#include "ops/contrib/inverse/inverse_variant.h"

namespace opgraft::contrib {
const InverseVariant kInverseAvx2 = kVariant;
}
