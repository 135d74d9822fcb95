// The inversion for CPUs with AVX-512; compiled with it.
#define OPGRAFT_VECTOR_BYTES 64
#include "ops/contrib/inverse/inverse_variant.h"

namespace opgraft::contrib {
const InverseVariant kInverseAvx512 = kVariant;
}
