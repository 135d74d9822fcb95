// The inversion, compiled for CPUs with AVX-512.
#define OPGRAFT_VECTOR_BYTES 64
#include "ops/contrib/inverse/inverse_variant.h"

namespace opgraft::contrib {
const InverseVariant kInverseAvx512 = kVariant;
}
