// The inversion for CPUs with AVX2, FMA and F16C, which none with AVX2 lacks; compiled with these.
#define OPGRAFT_VECTOR_BYTES 32
#include "ops/contrib/inverse/inverse_variant.h"

namespace opgraft::contrib {
const InverseVariant kInverseAvx2 = kVariant;
}
