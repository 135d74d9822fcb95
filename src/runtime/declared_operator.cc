// Makes of a node and its schema what a canonical node says, for the same kernel.
#include "runtime/declared_operator.h"

#include <climits>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "adapter/attributes.h"
#include "adapter/calls.h"
#include "model/onnx_tags.h"
#include "runtime/pyop_kernel.h"

namespace opgraft::ort {
namespace {

namespace tag = model::tag;

const DeclaredOperator& DeclaredOf(const OrtCustomOp* self) {
  return *reinterpret_cast<const DeclaredOperator*>(self);
}

int TypeOf(const Schema& schema, const Parameter& parameter) {
  const std::vector<std::int64_t>& allowed = schema.types[parameter.type].allowed;
  return allowed.size() == 1 ? static_cast<int>(allowed.front()) : 0;
}

/// Reads a value and writes it as the field of an AttributeProto.
template <class Value, class Write>
bool CopyValue(const Attributes& attributes, const char* name, const Write& write) {
  Value value{};
  if (!attributes.Read(name, &value)) return false;
  write(value);
  return true;
}

/// Writes the value of the attribute; false if the node has none of this kind.
bool CopyAttribute(const Attributes& attributes, const char* name, std::int64_t kind,
                   protozero::pbf_writer* out) {
  switch (kind) {
    case tag::kFloat:
      return CopyValue<float>(attributes, name,
                              [&](float one) { out->add_float(tag::kAttributeFloat, one); });
    case tag::kInt:
      return CopyValue<std::int64_t>(
          attributes, name, [&](std::int64_t one) { out->add_int64(tag::kAttributeInt, one); });
    case tag::kString:
      return CopyValue<std::string>(attributes, name, [&](const std::string& one) {
        out->add_string(tag::kAttributeString, one);
      });
    case tag::kFloats:
      return CopyValue<std::vector<float>>(attributes, name, [&](const auto& all) {
        for (const float one : all) out->add_float(tag::kAttributeFloats, one);
      });
    case tag::kInts:
      return CopyValue<std::vector<std::int64_t>>(attributes, name, [&](const auto& all) {
        for (const std::int64_t one : all) out->add_int64(tag::kAttributeInts, one);
      });
    case tag::kStrings:
      return CopyValue<std::vector<std::string>>(attributes, name, [&](const auto& all) {
        for (const std::string& one : all) out->add_string(tag::kAttributeStrings, one);
      });
    default: return false;
  }
}

/// Gathers the attributes of the node; a ModelError if one is missing or of another kind.
Status CopyAttributes(const Attributes& attributes, const Schema& schema, pyop::Spec* spec) {
  protozero::pbf_writer node(spec->arguments);
  for (const AttributeParameter& known : schema.attributes) {
    std::string bytes;
    protozero::pbf_writer attribute(bytes);
    attribute.add_string(tag::kAttributeName, known.name);
    if (CopyAttribute(attributes, known.name.c_str(), known.type, &attribute)) {
      attribute.add_enum(tag::kAttributeType, static_cast<std::int32_t>(known.type));
      node.add_message(tag::kNodeAttribute, bytes);
    } else if (attributes.Has(known.name.c_str())) {
      return Status::Model(spec->Who() + ": attribute '" + known.name + "' is not of ONNX's kind " +
                           tag::AttributeTypeName(known.type) + ", as it is declared");
    } else if (known.is_required) {
      return Status::Model(spec->Who() + ": attribute '" + known.name +
                           "' is missing, and it has no default");
    }
  }
  return Status();
}

Status MakeDeclaredKernel(const DeclaredOperator& self, const OrtKernelInfo* info, void** kernel) {
  const Schema& schema = *self.schema;
  pyop::Spec spec;
  spec.operator_name = schema.FullName();
  spec.module = schema.module;
  for (const Parameter& output : schema.outputs) {
    spec.output_types.push_back(TypeOf(schema, output));
  }
  std::unique_ptr<PyOpKernel> made;
  Status status = ReadNodeName(self.runtime.api, info, &spec.node);
  if (status.ok()) status = CopyAttributes(KernelAttributes(self.runtime, info), schema, &spec);
  if (status.ok()) {
    status = PyOpKernel::Create(self.runtime, info, std::move(spec), *self.policy, nullptr,
                                PyOpDevice::kCpu, &made);
  }
  *kernel = made.release();
  return status;
}

}  // namespace

DeclaredOperator::DeclaredOperator(const Runtime& host, std::shared_ptr<const Policy> allowed,
                                   std::shared_ptr<const Schema> declared)
    : runtime(host), policy(std::move(allowed)), schema(std::move(declared)) {
  GetName = [](const OrtCustomOp* self) { return DeclaredOf(self).schema->name.c_str(); };
  GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
  GetInputType = [](const OrtCustomOp* self, std::size_t index) {
    const Schema& schema = *DeclaredOf(self).schema;
    return TypeOf(schema, schema.inputs[index]);
  };
  GetInputTypeCount = [](const OrtCustomOp* self) {
    return DeclaredOf(self).schema->inputs.size();
  };
  GetOutputType = [](const OrtCustomOp* self, std::size_t index) {
    const Schema& schema = *DeclaredOf(self).schema;
    return TypeOf(schema, schema.outputs[index]);
  };
  GetOutputTypeCount = [](const OrtCustomOp* self) {
    return DeclaredOf(self).schema->outputs.size();
  };
  GetInputCharacteristic =
      GetOutputCharacteristic = [](const OrtCustomOp*, std::size_t) { return kRequired; };
  GetInputMemoryType = [](const OrtCustomOp*, std::size_t) { return 0; };
  GetVariadicInputMinArity = GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
  GetVariadicInputHomogeneity = GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 0; };
  GetStartVersion = [](const OrtCustomOp*) { return 1; };
  GetEndVersion = [](const OrtCustomOp*) { return INT_MAX; };
  CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info,
                      void** kernel) {
    return Guarded(api, [&] { return MakeDeclaredKernel(DeclaredOf(self), info, kernel); });
  };
  KernelComputeV2 = ComputePyOp;
  KernelDestroy = DestroyPyOp;
}

}  // namespace opgraft::ort
