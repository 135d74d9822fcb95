// Reads the node's attributes once, when the kernel is made; a run only touches tensors.
#include "ort/pyop_kernel.h"

#include <array>
#include <memory_resource>
#include <string>
#include <utility>

#include "core/element_type.h"
#include "ort/calls.h"
#include "pyop/interpreter.h"

namespace opgraft::ort {
namespace {

/// The attributes of a node. One that is missing leaves what is there untouched.
class Attributes {
 public:
  Attributes(const OrtApi* api, const OrtKernelInfo* info) : api_(api), info_(info) {}

  void Read(const char* name, std::int64_t* integer) const {
    Drop(KernelInfoGetAttribute_int64(api_, info_, name, integer));
  }

  void Read(const char* name, std::string* text) const {
    std::string read;
    const auto get = [&](char* out, std::size_t* size) {
      return KernelInfoGetAttribute_string(api_, info_, name, out, size);
    };
    if (ReadText(api_, get, &read).ok()) *text = std::move(read);
  }

  void Read(const char* name, std::vector<std::int64_t>* integers) const {
    std::size_t count = 0;
    if (!Drop(KernelInfoGetAttributeArray_int64(api_, info_, name, nullptr, &count))) return;
    integers->resize(count);
    Drop(KernelInfoGetAttributeArray_int64(api_, info_, name, integers->data(), &count));
  }

 private:
  bool Drop(OrtStatus* status) const { return FromRuntime(api_, status).ok(); }

  const OrtApi* const api_;
  const OrtKernelInfo* const info_;
};

Status ReadSpec(const OrtApi* api, const OrtKernelInfo* info, pyop::Spec* spec) {
  const auto get_name = [&](char* out, std::size_t* size) {
    return KernelInfo_GetNodeName(api, info, out, size);
  };
  if (Status status = ReadText(api, get_name, &spec->node); !status.ok()) return status;
  const Attributes attributes(api, info);
  std::int64_t format = 0;
  attributes.Read(pyop::attribute::kFormat, &format);
  attributes.Read(pyop::attribute::kModule, &spec->module);
  attributes.Read(pyop::attribute::kClassName, &spec->class_name);
  attributes.Read(pyop::attribute::kCompute, &spec->compute);
  attributes.Read(pyop::attribute::kInputTypes, &spec->input_types);
  attributes.Read(pyop::attribute::kOutputTypes, &spec->output_types);
  attributes.Read(pyop::attribute::kInputPlaces, &spec->input_places);
  attributes.Read(pyop::attribute::kArguments, &spec->arguments);
  std::vector<std::int64_t> shapes;
  attributes.Read(pyop::attribute::kOutputShapes, &shapes);
  if (format != pyop::kFormat) {
    return Status::Model(spec->Who() + ": the node is of format " + std::to_string(format) +
                         ", this Opgraft reads format " + std::to_string(pyop::kFormat) +
                         (format > pyop::kFormat ? "; install a newer one"
                                                 : "; prepare the model again from its original"));
  }
  if (!pyop::Unpack(shapes, &spec->output_shapes)) {
    return Status::Model(spec->Who() +
                         ": attribute 'output_shapes' is no list of ranks, each "
                         "followed by its dimensions");
  }
  return Status();
}

/// The runtime allots memory by the type that the graph gives an output. The operator writes by the
/// type that the node gives it, so that the two must agree.
Status CheckOutputTypes(const OrtApi* api, const OrtKernelInfo* info, const pyop::Spec& spec) {
  for (std::size_t i = 0; i < spec.output_types.size(); ++i) {
    OrtTypeInfo* type_info = nullptr;
    Status status = FromRuntime(api, KernelInfo_GetOutputTypeInfo(api, info, i, &type_info));
    if (!status.ok() || type_info == nullptr) continue;  // nobody wants this output
    const OrtTensorTypeAndShapeInfo* tensor_info = nullptr;
    int element_type = 0;
    status = FromRuntime(api, CastTypeInfoToTensorInfo(api, type_info, &tensor_info));
    if (status.ok() && tensor_info != nullptr) {
      status = FromRuntime(api, GetTensorElementType(api, tensor_info, &element_type));
    }
    ReleaseTypeInfo(api, type_info);
    if (!status.ok()) return status;
    if (element_type == spec.output_types[i]) continue;
    return Status::Model(spec.Who() + ": output " + std::to_string(i) + " is " +
                         ElementTypeName(spec.output_types[i]) + " in 'output_types', but " +
                         (tensor_info == nullptr ? "no tensor" : ElementTypeName(element_type)) +
                         " in the graph");
  }
  return Status();
}

/// The tensors of one run. What it needs to know of them fits into itself, but for odd cases.
class RuntimeCall final : public pyop::Call {
 public:
  RuntimeCall(const Runtime& runtime, OrtKernelContext* context)
      : api_(runtime.api), lends_shapes_(runtime.LendsShapes()), context_(context) {}

  /// `spec` must outlive the call.
  Status ReadInputs(const pyop::Spec& spec, std::size_t inputs) {
    places_ = spec.input_places;
    views_.resize(spec.Places(inputs));
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const std::int64_t place =
          spec.input_places.empty() ? static_cast<std::int64_t>(i) : spec.input_places[i];
      if (place == pyop::kUnknown) continue;
      Status status = ReadInput(static_cast<std::size_t>(place), &views_[i]);
      if (!status.ok()) return status;
      if (!spec.input_types.empty() && views_[i].element_type != spec.input_types[i]) {
        return Status::Model(spec.Who() + ": input " + std::to_string(i) + " is " +
                             ElementTypeName(views_[i].element_type) + ", but 'input_types' says " +
                             ElementTypeName(spec.input_types[i]));
      }
    }
    return Status();
  }

  std::span<const pyop::TensorView> inputs() const override { return views_; }

  Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
    *data = nullptr;
    OrtValue* value = nullptr;
    OrtStatus* status =
        KernelContext_GetOutput(api_, context_, index, shape.data(), shape.size(), &value);
    if (status == nullptr && value != nullptr) status = GetTensorMutableData(api_, value, data);
    return FromRuntime(api_, status);
  }

  Status ReadStrings(std::size_t index, std::string* storage,
                     std::vector<std::string_view>* strings) override {
    const OrtValue* value = nullptr;
    Status status = FromRuntime(api_, KernelContext_GetInput(api_, context_, Place(index), &value));
    std::size_t size = 0;
    if (status.ok()) status = FromRuntime(api_, GetStringTensorDataLength(api_, value, &size));
    std::size_t elements = 1;
    for (const std::int64_t length : views_[index].shape) {
      elements *= static_cast<std::size_t>(length);
    }
    if (!status.ok() || elements == 0) return status;
    storage->resize(size);
    std::vector<std::size_t> starts(elements);
    status = FromRuntime(
        api_, GetStringTensorContent(api_, value, storage->data(), size, starts.data(), elements));
    if (!status.ok()) return status;
    strings->reserve(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      const std::size_t end = i + 1 < elements ? starts[i + 1] : size;
      strings->push_back(std::string_view(*storage).substr(starts[i], end - starts[i]));
    }
    return Status();
  }

  Status StoreStrings(std::size_t index, std::span<const std::int64_t> shape,
                      std::span<const std::string_view> strings) override {
    OrtValue* value = nullptr;
    OrtStatus* status =
        KernelContext_GetOutput(api_, context_, index, shape.data(), shape.size(), &value);
    for (std::size_t i = 0; status == nullptr && value != nullptr && i < strings.size(); ++i) {
      char* text = nullptr;
      status = GetResizedStringTensorElementBuffer(api_, value, i, strings[i].size(), &text);
      if (status == nullptr) strings[i].copy(text, strings[i].size());
    }
    return FromRuntime(api_, status);
  }

  Status IsUnwanted(std::size_t index, bool* is_unwanted) override {
    constexpr std::int64_t kNothing = 0;
    OrtValue* value = nullptr;
    OrtStatus* status = KernelContext_GetOutput(api_, context_, index, &kNothing, 1, &value);
    *is_unwanted = status == nullptr && value == nullptr;
    return FromRuntime(api_, status);
  }

 private:
  /// Which of the node's inputs an argument that is there is.
  std::size_t Place(std::size_t argument) const {
    return places_.empty() ? argument : static_cast<std::size_t>(places_[argument]);
  }

  Status ReadInput(std::size_t index, pyop::TensorView* view) {
    const OrtValue* value = nullptr;
    OrtStatus* status = KernelContext_GetInput(api_, context_, index, &value);
    if (status != nullptr || value == nullptr) return FromRuntime(api_, status);
    int element_type = 0;
    const std::int64_t* shape = nullptr;
    std::size_t rank = 0;
    status = lends_shapes_ ? GetTensorElementTypeAndShapeDataReference(api_, value, &element_type,
                                                                       &shape, &rank)
                           : CopyShape(value, &element_type, &shape, &rank);
    if (status == nullptr) {
      status = GetTensorMutableData(api_, const_cast<OrtValue*>(value), &view->data);
    }
    view->element_type = element_type;
    view->shape = {shape, rank};
    static char nothing = 0;  // an empty tensor may have no memory, and yet it is there
    if (view->data == nullptr) view->data = &nothing;
    return FromRuntime(api_, status);
  }

  /// What GetTensorElementTypeAndShapeDataReference does, for runtimes that lack it.
  OrtStatus* CopyShape(const OrtValue* value, int* element_type, const std::int64_t** shape,
                       std::size_t* rank) {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    OrtStatus* status = GetTensorTypeAndShape(api_, value, &info);
    if (status != nullptr) return status;
    status = GetTensorElementType(api_, info, element_type);
    if (status == nullptr) status = GetDimensionsCount(api_, info, rank);
    if (status == nullptr) {
      auto* copy = static_cast<std::int64_t*>(memory_.allocate(*rank * sizeof(std::int64_t)));
      status = GetDimensions(api_, info, copy, *rank);
      *shape = copy;
    }
    ReleaseTensorTypeAndShapeInfo(api_, info);
    return status;
  }

  const OrtApi* const api_;
  const bool lends_shapes_;
  OrtKernelContext* const context_;
  std::span<const std::int64_t> places_;
  std::array<std::byte, 1024> buffer_;
  std::pmr::monotonic_buffer_resource memory_{buffer_.data(), buffer_.size()};
  std::pmr::vector<pyop::TensorView> views_{&memory_};
};

}  // namespace

Status PyOpKernel::Create(const Runtime& runtime, const OrtKernelInfo* info, const Policy& policy,
                          std::unique_ptr<PyOpKernel>* kernel) {
  const OrtApi* const api = runtime.api;
  pyop::Spec spec;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  Status status = ReadSpec(api, info, &spec);
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetInputCount(api, info, &inputs));
  if (status.ok()) status = FromRuntime(api, KernelInfo_GetOutputCount(api, info, &outputs));
  if (status.ok()) status = Check(spec, inputs, outputs);
  if (status.ok()) status = CheckOutputTypes(api, info, spec);
  if (!status.ok()) return status;
  if (!policy.Allows(spec.module)) return policy.Refusal(spec.Who(), spec.module);

  const pyop::Bridge* bridge = nullptr;
  if (status = pyop::GetBridge(&bridge); !status.ok()) {
    return Status(status.kind(), spec.Who() + ": " + status.message());
  }
  std::unique_ptr<PyOpKernel> made(new PyOpKernel(runtime, std::move(spec), inputs));
  status = bridge->create(made->spec_, policy, &made->operator_);
  if (status.ok()) *kernel = std::move(made);
  return status;
}

Status PyOpKernel::Compute(OrtKernelContext* context) const {
  RuntimeCall call(runtime_, context);
  Status status = call.ReadInputs(spec_, inputs_);
  return status.ok() ? operator_->Compute(call) : status;
}

}  // namespace opgraft::ort
