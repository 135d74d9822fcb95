// Finds the runtime by dlopen, and calls its functions by their slots.
#include "runtime_session.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "comparison.h"
#include "gpu.h"
#include "runtime_status.h"

// Defined only if operators are compiled into the program.
extern "C" __attribute__((weak)) const OpgraftPack* opgraft_pack(void);
extern "C" __attribute__((weak)) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                              const OrtApiBase* base);

namespace opgraft::op_test {
namespace {

constexpr const char kRuntimeVariable[] = "OPGRAFT_TEST_RUNTIME";
constexpr const char kPacksVariable[] = "OPGRAFT_TEST_PACKS";
constexpr std::size_t kWidestAlignment = 64;
constexpr int kFatal = 4;  // nothing less severe is logged, because we report failures ourselves

template <class Object, const auto& kRelease>
struct Releaser {
  const OrtApi* api;
  void operator()(Object* object) const { kRelease(api, object); }
};
template <class Object, const auto& kRelease>
using Owned = std::unique_ptr<Object, Releaser<Object, kRelease>>;

using OwnedValue = Owned<OrtValue, ort::ReleaseValue>;

/// Makes calls one after another until one fails, and keeps that error.
class Calls {
 public:
  explicit Calls(const OrtApi* api) : api_(api) {}

  template <class Function, class... Arguments>
  Calls& operator()(const Function& function, Arguments... arguments) {
    if (status_.ok()) status_ = ToStatus(api_, function(api_, arguments...));
    return *this;
  }
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

 private:
  const OrtApi* const api_;
  Status status_;
};

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(':'), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Status ReadInfo(const OrtApi* api, const OrtTensorTypeAndShapeInfo* info, std::int32_t* type,
                std::vector<OpTester::Dimension>* shape) {
  Calls call(api);
  std::size_t rank = 0;
  call(ort::GetTensorElementType, info, type)(ort::GetDimensionsCount, info, &rank);
  std::vector<std::int64_t> sizes(rank);
  std::vector<const char*> symbols(rank);
  call(ort::GetDimensions, info, sizes.data(), rank);
  call(ort::GetSymbolicDimensions, info, symbols.data(), rank);
  for (std::size_t i = 0; call.ok() && i < rank; ++i) {
    OpTester::Dimension dimension(sizes[i]);
    if (sizes[i] < 0 && symbols[i] != nullptr) dimension.symbol = symbols[i];
    shape->push_back(std::move(dimension));
  }
  return call.status();
}

/// A tensor of the runtime in our memory; strings are in the runtime's memory.
class InputTensor {
 public:
  Status Make(const OrtApi* api, const FedValue& fed) {
    value_ = OwnedValue(nullptr, {api});
    Calls call(api);
    OrtValue* made = nullptr;
    const TensorValue& tensor = *fed.tensor;
    if (tensor.element_type() == kElementType<std::string>) {
      OrtAllocator* allocator = nullptr;
      call(ort::GetAllocatorWithDefaultOptions, &allocator);
      call(ort::CreateTensorAsOrtValue, allocator, tensor.shape().data(), tensor.shape().size(),
           tensor.element_type(), &made);
      value_.reset(made);
      for (std::size_t i = 0; i < tensor.strings().size(); ++i) {
        const std::string& text = tensor.strings()[i];
        char* memory = nullptr;
        call(ort::GetResizedStringTensorElementBuffer, made, i, text.size(), &memory);
        if (call.ok()) text.copy(memory, text.size());
      }
      return call.status();
    }
    const std::size_t bytes = tensor.bytes().size();
    memory_.resize(bytes + 2 * kWidestAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    std::size_t offset = (kWidestAlignment - address % kWidestAlignment) % kWidestAlignment;
    if (fed.is_odd) offset += ElementSize(tensor.element_type());
    data_ = memory_.data() + offset;
    if (bytes > 0) std::memcpy(data_, tensor.bytes().data(), bytes);
    OrtMemoryInfo* memory = nullptr;
    call(ort::CreateCpuMemoryInfo, 1, 0, &memory);
    const Owned<OrtMemoryInfo, ort::ReleaseMemoryInfo> owned(memory, {api});
    call(ort::CreateTensorWithDataAsOrtValue, memory, data_, bytes, tensor.shape().data(),
         tensor.shape().size(), tensor.element_type(), &made);
    value_.reset(made);
    return call.status();
  }
  const OrtValue* value() const { return value_.get(); }
  bool IsChanged(const TensorValue& tensor) const {
    return !tensor.bytes().empty() &&
           std::memcmp(data_, tensor.bytes().data(), tensor.bytes().size()) != 0;
  }

 private:
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
  OwnedValue value_{nullptr, {nullptr}};
};

Status ReadTexts(const OrtApi* api, const OrtValue* value, std::size_t count,
                 std::vector<std::string>* texts) {
  Calls call(api);
  std::size_t length = 0;
  call(ort::GetStringTensorDataLength, value, &length);
  std::string content(length, '\0');
  std::vector<std::size_t> offsets(count);
  call(ort::GetStringTensorContent, value, content.data(), length, offsets.data(), count);
  for (std::size_t i = 0; call.ok() && i < count; ++i) {
    const std::size_t end = i + 1 < count ? offsets[i + 1] : length;
    texts->push_back(content.substr(offsets[i], end - offsets[i]));
  }
  return call.status();
}

Status ReadOutput(const OrtApi* api, OrtValue* value, TensorValue* tensor) {
  Calls call(api);
  OrtTensorTypeAndShapeInfo* info = nullptr;
  call(ort::GetTensorTypeAndShape, value, &info);
  const Owned<OrtTensorTypeAndShapeInfo, ort::ReleaseTensorTypeAndShapeInfo> owned(info, {api});
  if (!call.ok()) return call.status();
  std::int32_t type = 0;
  std::vector<OpTester::Dimension> dimensions;
  if (Status status = ReadInfo(api, info, &type, &dimensions); !status.ok()) return status;
  std::vector<std::int64_t> shape;
  std::size_t count = 1;
  for (const OpTester::Dimension& one : dimensions) {
    shape.push_back(one.size);
    count *= static_cast<std::size_t>(one.size);
  }
  std::vector<std::string> texts;
  std::vector<std::byte> bytes;
  if (type == kElementType<std::string>) {
    if (Status status = ReadTexts(api, value, count, &texts); !status.ok()) return status;
  } else if (const std::size_t size = count * ElementSize(type); size > 0) {
    void* data = nullptr;
    call(ort::GetTensorMutableData, value, &data);
    if (!call.ok()) return call.status();
    bytes.resize(size);
    std::memcpy(bytes.data(), data, size);
  }
  *tensor = TensorValue(type, std::move(shape), std::move(bytes), std::move(texts));
  return Status();
}

}  // namespace

Status TestRuntime::Find(const TestRuntime** runtime) {
  static TestRuntime* const found =
      new TestRuntime;  // the runtime's threads outlive static objects
  static const Status status = found->Load();
  *runtime = found;
  return status;
}

Status TestRuntime::Load() {
  const char* const path = std::getenv(kRuntimeVariable);
  void* const library =
      path != nullptr && *path != '\0' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : RTLD_DEFAULT;
  if (path != nullptr && *path != '\0' && library == nullptr) {
    return Status::Unavailable(std::string(kRuntimeVariable) + "=" + path + ": " + dlerror());
  }
  const auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (get_base == nullptr) {
    return Status::Unavailable(
        path != nullptr && *path != '\0'
            ? std::string(kRuntimeVariable) + "=" + path + " is not ONNX Runtime"
            : "there is no ONNX Runtime to test with. Fix: set " + std::string(kRuntimeVariable) +
                  " to the path of its library, which `python -c 'import opgraft; "
                  "print(opgraft.runtime_library())'` prints, and " +
                  kPacksVariable + " to the packs, separated by ':'");
  }
  base_ = get_base();
  const char* const version = ort::GetVersionString(base_);
  name_ = "ONNX Runtime " + std::string(version);
  int major = 0;
  int minor = 0;
  std::sscanf(version, "%d.%d", &major, &minor);
  if (major < 1 || (major == 1 && minor < 19)) {
    return Status::Unavailable("OpTester needs ONNX Runtime 1.19 or newer, this one is " +
                               std::string(version));
  }
  tells_rank_ = has_plugins_ = major > 1 || minor >= 24;
  api_ = ort::GetApi(base_, ort::kApiVersion);
  Status status = ToStatus(api_, ort::CreateEnv(api_, kFatal, "OpTester", &environment_));
  if (!status.ok()) return status;
  is_compiled_in_ = opgraft_pack != nullptr && RegisterCustomOps != nullptr;
  const char* const packs = std::getenv(kPacksVariable);
  for (std::string& pack : Split(packs != nullptr ? packs : "")) {
    void* const handle = dlopen(pack.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return Status::Unavailable(std::string(kPacksVariable) + ": " + dlerror());
    }
    const auto table =
        reinterpret_cast<const OpgraftPack* (*)()>(dlsym(handle, OPGRAFT_PACK_SYMBOL));
    packs_.push_back({std::move(pack), table != nullptr ? table() : nullptr});
  }
  return Status();
}

Status TestRuntime::Register(OrtSessionOptions* options) const {
  Calls call(api_);
  if (is_compiled_in_) {
    if (Status status = ToStatus(api_, RegisterCustomOps(options, base_)); !status.ok()) {
      return status;
    }
  }
  for (const Pack& pack : packs_) {
    call(ort::RegisterCustomOpsLibrary_V2, options, pack.path.c_str());
  }
  return call.status();
}

Status TestRuntime::FindGpu(const OrtEpDevice** gpu) const {
  static const OrtEpDevice* found = nullptr;
  static const Status status = [&] {
    if (!has_plugins_) return Status::Unavailable("OpgraftCUDA needs ONNX Runtime 1.24 or newer");
    return FindFirstGpu(api_, environment_, &found);
  }();
  *gpu = found;
  return status;
}

const OpgraftOperator* TestRuntime::FindOperator(std::string_view domain, std::string_view name,
                                                 int version) const {
  const OpgraftOperator* found = nullptr;
  const auto search = [&](const OpgraftPack* pack) {
    if (pack == nullptr || pack->version > OPGRAFT_PACK_VERSION) return;
    for (std::size_t i = 0; i < pack->operator_count; ++i) {
      const OpgraftOperator* const one = pack->operators[i];
      if (one->domain != domain || one->name != name || one->since_version > version) continue;
      if (found == nullptr || one->since_version > found->since_version) found = one;
    }
  };
  if (is_compiled_in_) search(opgraft_pack());
  for (const Pack& pack : packs_) search(pack.table);
  return found;
}

TestSession::~TestSession() {
  if (session_ != nullptr) ort::ReleaseSession(runtime_->api(), session_);
}

Status TestSession::Open(const TestRuntime& runtime, const std::string& model, SessionKind kind) {
  runtime_ = &runtime;
  const OrtApi* const api = runtime.api();
  Calls call(api);
  OrtSessionOptions* options = nullptr;
  call(ort::CreateSessionOptions, &options);
  const Owned<OrtSessionOptions, ort::ReleaseSessionOptions> owned(options, {api});
  // Two threads, so that loops run in parallel; they must not spin between tests.
  call(ort::SetIntraOpNumThreads, options, 2);
  call(ort::AddSessionConfigEntry, options, "session.intra_op.allow_spinning", "0");
  // On a GPU too: otherwise the runtime would compute constants once, on the CPU.
  if (!kind.is_optimized || kind.on_gpu) call(ort::SetSessionGraphOptimizationLevel, options, 0);
  if (kind.on_gpu) {
    const OrtEpDevice* gpu = nullptr;
    if (Status status = runtime.FindGpu(&gpu); !status.ok()) return status;
    call(ort::SessionOptionsAppendExecutionProvider_V2, options, runtime.environment(), &gpu,
         std::size_t{1}, nullptr, nullptr, std::size_t{0});
    if (kind.is_gpu_alone) {
      call(ort::AddSessionConfigEntry, options, "session.disable_cpu_ep_fallback", "1");
    }
  }
  if (!call.ok()) return call.status();
  if (Status status = runtime.Register(options); !status.ok()) return status;
  call(ort::CreateSessionFromArray, runtime.environment(), model.data(), model.size(), options,
       &session_);
  return call.status();
}

Status TestSession::Inferred(std::size_t index, InferredType* inferred) const {
  const OrtApi* const api = runtime_->api();
  Calls call(api);
  OrtTypeInfo* type = nullptr;
  const OrtTensorTypeAndShapeInfo* info = nullptr;
  call(ort::SessionGetOutputTypeInfo, session_, index, &type);
  const Owned<OrtTypeInfo, ort::ReleaseTypeInfo> owned(type, {api});
  call(ort::CastTypeInfoToTensorInfo, type, &info);
  if (!call.ok() || info == nullptr) return call.status();
  std::vector<OpTester::Dimension> shape;
  Status status = ReadInfo(api, info, &inferred->element_type, &shape);
  const bool has_rank = runtime_->tells_rank() ? ort::TensorTypeAndShape_HasShape(api, info)
                                               : !shape.empty();  // if empty, may be a scalar
  if (has_rank) inferred->shape = std::move(shape);
  return status;
}

Status TestSession::Run(const std::vector<FedValue>& inputs,
                        const std::vector<std::string>& output_names,
                        std::vector<TensorValue>* outputs,
                        std::vector<std::string>* changed) const {
  const OrtApi* const api = runtime_->api();
  std::vector<InputTensor> tensors(inputs.size());
  std::vector<const char*> names;
  std::vector<const OrtValue*> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (Status status = tensors[i].Make(api, inputs[i]); !status.ok()) return status;
    names.push_back(inputs[i].name.c_str());
    values.push_back(tensors[i].value());
  }
  std::vector<const char*> asked;
  for (const std::string& name : output_names) asked.push_back(name.c_str());
  std::vector<OrtValue*> given(asked.size());
  Status status = ToStatus(api, ort::Run(api, session_, nullptr, names.data(), values.data(),
                                         values.size(), asked.data(), asked.size(), given.data()));
  std::vector<OwnedValue> owned;
  for (OrtValue* const value : given) {
    if (value != nullptr) owned.push_back(OwnedValue(value, {api}));
  }
  outputs->assign(asked.size(), TensorValue());
  for (std::size_t i = 0; status.ok() && i < given.size(); ++i) {
    status = given[i] != nullptr ? ReadOutput(api, given[i], &(*outputs)[i])
                                 : Status::Error("output '" + output_names[i] + "' is missing");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (tensors[i].IsChanged(*inputs[i].tensor)) changed->push_back(inputs[i].name);
  }
  return status;
}

}  // namespace opgraft::op_test
