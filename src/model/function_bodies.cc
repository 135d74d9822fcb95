// Two tables: bodies that are the same for all nodes, and functions that write the others.
#include "model/function_bodies.h"

#include <iterator>

#include "base/text.h"
#include "model/body_graphs.h"
#include "model/body_node.h"
#include "model/body_writers.h"
#include "model/function_text.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

constexpr std::int64_t kNewest = 28;
constexpr std::string_view kPreviewDomain = "ai.onnx.preview";

/// The body of an operator in the opsets `first` to `last` of ONNX's own domain.
struct FixedBody {
  std::string_view op_type;
  std::int64_t first;
  std::int64_t last;
  std::string_view text;
};

constexpr FixedBody kFixedBodies[] = {
#include "model/function_bodies.inc"  // NOLINT(bugprone-suspicious-include)
};

struct WrittenBody {
  std::string_view domain;
  std::string_view op_type;
  std::int64_t first;
  std::int64_t last;
  std::string (*write)(const BodyNode& node);
};

constexpr WrittenBody kWrittenBodies[] = {
    {"", "Attention", 23, kNewest, WriteAttention},
    {"", "BitShift", 28, kNewest, WriteBitShift},
    {"", "CausalConvWithState", 27, kNewest, WriteCausalConvWithState},
    {"", "DepthToSpace", 28, kNewest, WriteDepthToSpace},
    {"", "LinearAttention", 27, kNewest, WriteLinearAttention},
    {"", "Mod", 28, kNewest, WriteMod},
    {"", "RMSNormalization", 23, kNewest, WriteRmsNormalization},
    {"", "RotaryEmbedding", 23, kNewest, WriteRotaryEmbedding},
    {"", "SpaceToDepth", 28, kNewest, WriteSpaceToDepth},
    {kPreviewDomain, "FlexAttention", 1, 1, WriteFlexAttention},
};

template <class Body>
bool Fits(const Body& body, std::string_view op_type, std::int64_t version) {
  return body.op_type == op_type && body.first <= version && version <= body.last;
}

const FixedBody* FindFixed(std::string_view domain, std::string_view op_type,
                           std::int64_t version) {
  for (const FixedBody& body : kFixedBodies) {
    if (domain.empty() && Fits(body, op_type, version)) return &body;
  }
  return nullptr;
}

const WrittenBody* FindWritten(std::string_view domain, std::string_view op_type,
                               std::int64_t version) {
  for (const WrittenBody& body : kWrittenBodies) {
    if (body.domain == domain && Fits(body, op_type, version)) return &body;
  }
  return nullptr;
}

/// Throws if the node has an unknown attribute, or lacks an input.
void CheckCall(const BodyNode& node, const FunctionText& function) {
  for (const auto& [name, attribute] : node.attributes()) {
    if (function.attributes.contains(std::string(name))) continue;
    throw NoBodyError("it has the attribute '" + ReadableName(name) +
                      "', which the operator does not have");
  }
  for (std::size_t i = 0; i < function.is_required.size(); ++i) {
    if (!function.is_required[i] || node.HasInput(i)) continue;
    throw NoBodyError("its input " + std::to_string(i) + " is absent, but the operator needs it");
  }
}

}  // namespace

bool HasBody(std::string_view domain, std::string_view op_type, std::int64_t version) {
  const std::string_view normal = Normalized(domain);
  return FindWritten(normal, op_type, version) != nullptr ||
         FindFixed(normal, op_type, version) != nullptr;
}

Status FindBody(std::string_view node, const NodeHead& head, std::int64_t version,
                const DeclaredValues& declared, std::string_view origin, std::string* function) {
  const std::string_view domain = Normalized(head.domain);
  const WrittenBody* const written = FindWritten(domain, head.op_type, version);
  const FixedBody* const fixed = FindFixed(domain, head.op_type, version);
  if (written == nullptr && fixed == nullptr) return Status();
  if (Status status = CheckAttributes(node, head); !status.ok()) return status;
  try {
    const BodyNode read(node, version, declared);
    FunctionText text;
    Status status =
        ReadFunctionText(written != nullptr ? written->write(read) : fixed->text, &text);
    if (!status.ok()) return status;
    CheckCall(read, text);
    *function = PutGraphs(read, text.bytes);
    return Status();
  } catch (const NoBodyError& error) {
    return Status::Model(std::string(origin) + ", node '" + ReadableName(NodeName(node, head)) +
                         "', operator " + (domain.empty() ? "" : std::string(domain) + "::") +
                         std::string(head.op_type) + ": " + error.what());
  }
}

}  // namespace opgraft::model
