// The inversion, compiled for every CPU.
#define OPGRAFT_VECTOR_BYTES 16
#include "ops/contrib/inverse/inverse_variant.h"

namespace opgraft::contrib {
const InverseVariant kInverseBaseline = kVariant;
}
