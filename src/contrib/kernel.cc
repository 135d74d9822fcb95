// Implements the functions that kernels of ONNX Runtime's tree call, on top of the pack contract.
#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "base/element_type.h"
#include "opgraft/contrib/op_kernel.h"

namespace onnxruntime {
namespace {

using opgraft::internal::Check;
using opgraft::internal::OperatorDefinition;

/// Returns a view of a tensor of the host; a tensor of strings is copied.
Tensor ToTensor(const OpgraftTensor& tensor) {
  TensorShape shape(tensor.shape, tensor.rank);
  const MLDataType type = DataTypeImpl::Find(tensor.element_type);
  if (type == nullptr) {
    ORT_THROW("there is no C++ type for tensors of ",
              opgraft::ElementTypeName(tensor.element_type));
  }
  if (type != DataTypeImpl::GetType<std::string>()) return {type, std::move(shape), tensor.data};
  const auto* const texts = static_cast<const OpgraftText*>(tensor.data);
  std::vector<std::string> strings(static_cast<std::size_t>(shape.Size()));
  for (std::size_t i = 0; i < strings.size(); ++i) strings[i].assign(texts[i].data, texts[i].size);
  return Tensor::OfStrings(std::move(shape), std::move(strings));
}

}  // namespace

Node::Node(const opgraft::internal::NodeState& state, OpgraftNode* host) : state_(state) {
  for (std::size_t i = 0; i < state.input_count; ++i) {
    std::int32_t type = 0;
    Check(host->table->input_type(host, i, &type));
    const bool is_declared = !state.definition->inputs.empty();
    const std::string name =
        is_declared ? OperatorDefinition::At(state.definition->inputs, i).name : "";
    inputs_.push_back(&arguments_.emplace_back(name, type != 0));
  }
}

contrib_internal::KernelNode::KernelNode(const opgraft::internal::OperatorDefinition& definition,
                                         const opgraft::internal::KernelDefinition& kernel,
                                         OpgraftNode* of)
    : state(definition, kernel, of), kernel_types(kernel.type_numbers), host(of), node(state, of) {
  // Only types that differ from input to input are left: the runtime has checked the others.
  for (std::size_t i = 0; i < state.input_count && !definition.inputs.empty(); ++i) {
    const auto& variable = definition.types[OperatorDefinition::At(definition.inputs, i).type];
    std::int32_t type = 0;
    Check(of->table->input_type(of, i, &type));
    const auto& allowed = variable.allowed;
    if (type != 0 && !allowed.empty() &&
        std::find(allowed.begin(), allowed.end(), type) == allowed.end()) {
      ORT_THROW("input ", i, " is ", opgraft::ElementTypeName(type),
                ", which the schema does not allow for '", variable.name, "'");
    }
  }
}

const opgraft::AttributeValue* OpKernelInfo::Find(const std::string& name) const {
  const auto& attributes = node_->state.definition->attributes;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    if (attributes[i].name == name) return &node_->state.attributes[i];
  }
  return nullptr;
}

bool OpKernelInfo::TryGetConstantInput(int index, const Tensor** value) const {
  if (index < 0 || static_cast<std::size_t>(index) >= node_->state.input_count) return false;
  const opgraft::internal::NodeState& state = node_->state;
  if (!state.definition->IsOnHost(*state.kernel, static_cast<std::size_t>(index))) return false;
  auto found = node_->constants.find(index);
  if (found == node_->constants.end()) {
    if (node_->host == nullptr) return false;
    OpgraftTensor tensor = {};
    Check(node_->host->table->constant(node_->host, static_cast<std::size_t>(index), &tensor));
    std::optional<Tensor> copy;
    if (tensor.element_type != 0) {
      // The host's memory is only valid until the kernel is created, but the kernel may keep the
      // tensor.
      Tensor view = ToTensor(tensor);
      if (view.IsDataTypeString()) {
        copy.emplace(std::move(view));
      } else {
        copy.emplace(view.DataType(), view.Shape(), IAllocator::Heap());
        std::copy_n(static_cast<const std::byte*>(view.DataRaw()), view.SizeInBytes(),
                    static_cast<std::byte*>(copy->MutableDataRaw()));
      }
    }
    found = node_->constants.emplace(index, std::move(copy)).first;
  }
  if (!found->second) return false;
  *value = &*found->second;
  return true;
}

AllocatorPtr OpKernelInfo::GetAllocator(OrtMemType type) const {
  if (type == OrtMemTypeDefault && !node_->state.kernel->IsForCpu()) {
    ORT_THROW("GetAllocator: memory of the GPU is only available in a run. Fix: use ",
              "GetScratchBuffer or GetTempSpaceAllocator");
  }
  return IAllocator::Heap();
}

/// Allocates from the runtime on the thread of the call, and from the heap in parallel loops, on
/// other threads and after the call. For the GPU there is no heap.
class OpKernelContext::CallAllocator final : public IAllocator {
 public:
  CallAllocator(opgraft::Context* context, bool is_on_host)
      : context_(context), is_on_host_(is_on_host) {}
  ~CallAllocator() override {
    for (void* const memory : from_heap_) heap_->Free(memory);
  }
  ORT_DISALLOW_COPY_ASSIGNMENT_AND_MOVE(CallAllocator);

  void* Alloc(std::size_t size) override {
    if (owner_ == std::this_thread::get_id() && context_ != nullptr && !context_->is_looping()) {
      return context_->Scratch<std::byte>(size).data();
    }
    if (!is_on_host_) {
      ORT_THROW("memory of the GPU can only be allocated on the thread of the call, outside of ",
                "parallel loops");
    }
    const std::lock_guard lock(mutex_);
    void* const memory = heap_->Alloc(size);
    from_heap_.insert(memory);
    return memory;
  }
  void Free(void* memory) override {
    const std::lock_guard lock(mutex_);
    if (from_heap_.erase(memory) > 0) heap_->Free(memory);
  }
  void Close() { context_ = nullptr; }

 private:
  opgraft::Context* context_;
  const bool is_on_host_;
  const std::thread::id owner_ = std::this_thread::get_id();
  const AllocatorPtr heap_ = Heap();
  std::mutex mutex_;
  std::set<void*> from_heap_;
};

OpKernelContext::OpKernelContext(const contrib_internal::KernelNode& node, OpgraftCall* call)
    : node_(node),
      call_(call),
      context_(node.state, call),
      inputs_(node.state.input_count),
      is_read_(node.state.input_count),
      outputs_(node.state.output_count),
      is_asked_(node.state.output_count) {}

OpKernelContext::~OpKernelContext() {
  if (allocator_ != nullptr) allocator_->Close();
}

int OpKernelContext::NumVariadicInputs(std::size_t parameter) const {
  const auto& inputs = node_.state.definition->inputs;
  ORT_ENFORCE(parameter < inputs.size(), "there is no input ", parameter);
  if (inputs[parameter].occurrence != OPGRAFT_VARIADIC) return Place(InputCount()) > parameter;
  return std::max(InputCount() - static_cast<int>(parameter), 0);
}

const Tensor* OpKernelContext::FindInput(int index) const {
  if (index < 0 || index >= InputCount()) return nullptr;
  const std::size_t place = Place(index);
  if (!is_read_[place]) {
    OpgraftTensor tensor = {};
    Check(call_->table->input(call_, place, &tensor));
    if (tensor.element_type != 0) inputs_[place].emplace(ToTensor(tensor));
    is_read_[place] = true;
  }
  std::optional<Tensor>& input = inputs_[place];
  return input ? &*input : nullptr;
}

Tensor* OpKernelContext::Output(int index, const TensorShape& shape) {
  if (index < 0 || index >= OutputCount()) return nullptr;
  const std::size_t place = Place(index);
  std::optional<Tensor>& output = outputs_[place];
  if (output) {
    ORT_ENFORCE(output->Shape() == shape, "output ", index, " has the shape ", output->Shape(),
                " already, and is requested with ", shape);
    return &*output;
  }
  ORT_ENFORCE(shape.Size() >= 0, "output ", index, " is requested with the shape ", shape);
  is_asked_[place] = true;
  const auto& parameter = OperatorDefinition::At(node_.state.definition->outputs, place);
  const MLDataType type = DataTypeImpl::Find(node_.kernel_types[parameter.type]);
  if (type == DataTypeImpl::GetType<std::string>()) {
    std::vector<std::string> strings(static_cast<std::size_t>(shape.Size()));
    output.emplace(Tensor::OfStrings(shape, std::move(strings)));
    return &*output;
  }
  OpgraftTensor tensor = {};
  Check(call_->table->output(call_, place, shape.GetDims().data(), shape.NumDimensions(), &tensor));
  if (tensor.element_type == 0) return nullptr;
  output.emplace(type, shape, tensor.data);
  return &*output;
}

Status OpKernelContext::GetTempSpaceAllocator(AllocatorPtr* allocator) const {
  if (allocator_ == nullptr) {
    allocator_ = std::make_shared<CallAllocator>(&context_, node_.state.kernel->IsForCpu());
  }
  *allocator = allocator_;
  return Status::OK();
}

Status OpKernelContext::GetTempSpaceCPUAllocator(AllocatorPtr* allocator) const {
  if (node_.state.kernel->IsForCpu()) return GetTempSpaceAllocator(allocator);
  *allocator = IAllocator::Heap();
  return Status::OK();
}

Stream* OpKernelContext::GetComputeStream() const {
  if (node_.state.kernel->IsForCpu()) return nullptr;
  if (!stream_) {
    AllocatorPtr memory;
    ORT_THROW_IF_ERROR(GetTempSpaceAllocator(&memory));
    stream_.emplace(context_.stream(), std::move(memory));
  }
  return &*stream_;
}

void OpKernelContext::Finish() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& parameter = OperatorDefinition::At(node_.state.definition->outputs, i);
    if (!is_asked_[i] && parameter.occurrence != OPGRAFT_OPTIONAL) {
      ORT_THROW("the kernel has not allocated output ", i, ", '", parameter.name,
                "'. Fix: call ctx->Output(", i, ", shape)");
    }
    const std::optional<Tensor>& made = outputs_[i];
    if (!made || !made->IsDataTypeString()) continue;
    const Tensor& output = *made;
    std::vector<OpgraftText> texts;
    for (const std::string& text : output.DataAsSpan<std::string>()) {
      texts.push_back({text.data(), text.size()});
    }
    const auto dims = output.Shape().GetDims();
    Check(call_->table->store_texts(call_, i, dims.data(), dims.size(), texts.data()));
  }
}

namespace concurrency {

void ThreadPool::TryParallelFor(ThreadPool* pool, std::ptrdiff_t total, const TensorOpCost& cost,
                                const RangeFunction& fn) {
  if (total <= 0) return;
  // A part should take about 10 microseconds; memory is assumed to transfer 64 bytes in 11 cycles.
  constexpr double kCyclesOfPart = 40'000;
  constexpr double kCyclesOfByte = 11.0 / 64;
  const double cycles =
      cost.compute_cycles + (cost.bytes_loaded + cost.bytes_stored) * kCyclesOfByte;
  const double parts = cycles * static_cast<double>(total) / kCyclesOfPart;
  constexpr std::ptrdiff_t kMostParts = 256;
  const auto wanted = static_cast<std::ptrdiff_t>(
      std::clamp(parts, 1.0, static_cast<double>(std::min(total, kMostParts))));
  Run(pool, wanted, 0, [&](std::ptrdiff_t part) {
    const WorkInfo work = PartitionWork(part, wanted, total);
    fn(work.start, work.end);
  });
}

}  // namespace concurrency
}  // namespace onnxruntime
