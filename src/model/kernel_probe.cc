// Writes models of one node. The model is also what an answer is remembered by.
#include "model/kernel_probe.h"

#include <mutex>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

/// Larger attributes, such as tensors and tables, do not decide on a kernel.
constexpr std::size_t kLargestAttributes = std::size_t{16} << 10U;

/// How many models one rescue makes. A model of a million different nodes would take minutes.
constexpr std::size_t kMostAsked = 4096;

/// How many answers the process keeps, and the longest questions that it keeps them for: what a
/// model says must not stay for ever.
constexpr std::size_t kMostRemembered = 16384;
constexpr std::size_t kLongestRemembered = 2048;

/// The answers of this process by the conditions and the model. Never destroyed, because sessions
/// may be made while the process exits.
class Memory {
 public:
  static Memory& OfThisProcess() {
    static auto* const memory = new Memory;
    return *memory;
  }

  const bool* Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find(key);
    return found != answers_.end() ? &found->second : nullptr;  // nodes of a map stay in place
  }

  void Add(const std::string& key, bool answer) {
    const std::lock_guard lock(mutex_);
    if (answers_.size() < kMostRemembered) answers_.emplace(key, answer);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, bool> answers_;
};

void AddValue(std::uint32_t field, const std::string& name, ValueType type,
              protozero::pbf_writer* graph) {
  std::string value;
  protozero::pbf_writer writer(value);
  writer.add_string(tag::kValueName, name);
  writer.add_message(tag::kValueType, WriteType(type));
  graph->add_message(field, value);
}

}  // namespace

std::string WriteProbe(const NodeParts& node, const std::vector<std::string_view>& attributes,
                       const std::vector<ValueType>& inputs, const std::vector<ValueType>& outputs,
                       std::int64_t opset, std::int64_t ir_version) {
  std::string node_bytes;
  protozero::pbf_writer writer(node_bytes);
  std::string graph;
  protozero::pbf_writer graph_writer(graph);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string name = node.inputs[i].empty() ? "" : "i" + std::to_string(i);
    writer.add_string(tag::kNodeInput, name);
    if (!name.empty()) AddValue(tag::kGraphInput, name, inputs[i], &graph_writer);
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string name = node.outputs[i].empty() ? "" : "o" + std::to_string(i);
    writer.add_string(tag::kNodeOutput, name);
    if (!name.empty()) AddValue(tag::kGraphOutput, name, outputs[i], &graph_writer);
  }
  writer.add_string(tag::kNodeOpType, node.head.op_type.data(), node.head.op_type.size());
  for (const std::string_view attribute : attributes) {
    writer.add_message(tag::kNodeAttribute, attribute.data(), attribute.size());
  }
  constexpr std::uint32_t kGraphName = 2;
  graph_writer.add_message(tag::kGraphNode, node_bytes);
  graph_writer.add_string(kGraphName, "probe");
  std::string import;
  protozero::pbf_writer import_writer(import);
  import_writer.add_string(tag::kOpsetDomain, "");
  import_writer.add_int64(tag::kOpsetVersion, opset);
  std::string model;
  protozero::pbf_writer model_writer(model);
  model_writer.add_int64(tag::kIrVersion, ir_version);
  model_writer.add_message(tag::kGraph, graph);
  model_writer.add_message(tag::kOpsetImport, import);
  return model;
}

bool Kernels::Has(const NodeParts& node, const std::vector<std::string_view>& attributes,
                  const std::vector<ValueType>& inputs, const std::vector<ValueType>& outputs) {
  std::size_t size = 0;
  for (const std::string_view attribute : attributes) {
    size += attribute.size();
    for (FieldReader reader(attribute); reader.Next();) {
      const std::uint32_t kind = reader.field().tag();
      if (kind == tag::kAttributeGraph || kind == tag::kAttributeGraphs) return true;
    }
  }
  constexpr std::size_t kMostValues = 1000;
  if (size > kLargestAttributes || node.inputs.size() + node.outputs.size() > kMostValues) {
    return true;
  }
  std::string model = WriteProbe(node, attributes, inputs, outputs, opset_, ir_version_);
  const std::string key = conditions_ + "\n" + model;
  if (const auto found = answers_.find(key); found != answers_.end()) return found->second;
  const bool is_kept = !conditions_.empty() && key.size() <= kLongestRemembered;
  const bool* const known = is_kept ? Memory::OfThisProcess().Find(key) : nullptr;
  if (known != nullptr) return *known;
  if (++asked_ > kMostAsked) return true;
  const bool answer = probe_.Loads(model);
  if (is_kept) {
    Memory::OfThisProcess().Add(key, answer);
  } else {
    answers_.emplace(key, answer);
  }
  return answer;
}

}  // namespace opgraft::model
