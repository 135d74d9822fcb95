// The table of limits, measured with the released wheels.
#include "model/runtime_limits.h"

#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

struct Runtime {
  RuntimeVersion version;  // the first version that the row applies to
  RuntimeLimits limits;
};

constexpr Runtime kRuntimes[] = {
    {{0, 0, 0}, {10, 21, false, 20, false}}, {{1, 21, 0}, {10, 22, false, 22, false}},
    {{1, 21, 1}, {10, 22, true, 22, false}}, {{1, 23, 0}, {11, 23, true, 22, false}},
    {{1, 24, 0}, {13, 25, true, 23, false}}, {{1, 25, 0}, {13, 26, true, 23, true}},
};

}  // namespace

RuntimeLimits LimitsOf(const RuntimeVersion& version) {
  RuntimeLimits limits = kRuntimes[0].limits;
  for (const Runtime& runtime : kRuntimes) {
    if (runtime.version <= version) limits = runtime.limits;
  }
  return limits;
}

std::optional<std::int64_t> OpsetLimit(const RuntimeLimits& limits, std::string_view domain) {
  if (IsDefaultDomain(domain)) return limits.opset;
  if (domain == kMachineLearningDomain) return 5;  // the same in all runtimes
  if (domain == kContribDomain) return 1;
  return std::nullopt;
}

}  // namespace opgraft::model
