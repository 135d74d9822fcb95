// What a kernel may ask its host: about its node when it is made, for services when it runs.
#pragma once

#include <cxxabi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "opgraft/attribute.h"
#include "opgraft/c_api.h"
#include "opgraft/definition.h"
#include "opgraft/shape.h"
#include "opgraft/status.h"
#include "opgraft/tensor.h"

/// CUDA's, so that its pointer is a cudaStream_t and a CUstream.
struct CUstream_st;  // NOLINT(readability-identifier-naming)

#pragma GCC visibility push(hidden)
namespace opgraft {

/// A kernel may throw it: its text becomes the error's as it is. Other exceptions do as well.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Of a message to the runtime's log.
enum class Severity : std::int32_t {
  kVerbose = 0,
  kInfo = 1,
  kWarning = 2,
  kError = 3,
  kFatal = 4
};

namespace internal {

/// Thrown where the host has an error already: it unwinds the kernel, and says nothing itself.
struct HostFailed {};

inline void Check(int failed) {
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): no kernel should catch it by accident
  if (failed != 0) throw HostFailed();
}

template <class Host>
void Fail(Host* host, const Status& status) {
  const OpgraftError error = {static_cast<std::int32_t>(status.kind()),
                              {status.message().data(), status.message().size()}};
  host->table->fail(host, &error);
}

/// Calls `body` where the host called us; no exception gets past, but the end of a thread does.
template <class Host, class Body>
int Guard(Host* host, const Body& body) {
  try {
    const Status status = body();
    if (status.ok()) return 0;
    Fail(host, status);
  } catch (const HostFailed&) {
  } catch (const ShapeError& error) {
    Fail(host, Status::Model(error.what()));
  } catch (const KernelError& error) {
    Fail(host, Status::Error(error.what()));
  } catch (const std::bad_alloc&) {
    Fail(host, Status::Error("out of memory"));
  } catch (const std::exception& exception) {
    Fail(host, Status::Error(std::string("it threw a C++ exception: ") + exception.what()));
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    Fail(host, Status::Error("it threw something that is no std::exception"));
  }
  return 1;
}

/// What the shape rule said last, so that it is not asked again for inputs of the same shapes.
struct ShapeMemory {
  /// Guards the rest. A run that would have to wait does without.
  std::atomic_flag is_taken;
  std::size_t output_count = SIZE_MAX;
  /// Of each input, and of each output: the rank, then the sizes; -1 where there is no shape.
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> outputs;
};

/// What a kernel keeps of its node.
struct NodeState {
  const OperatorDefinition* definition = nullptr;
  const KernelDefinition* kernel = nullptr;
  std::string name;
  std::size_t input_count = 0;
  std::size_t output_count = 0;
  std::vector<AttributeValue> attributes;  ///< one for each that is declared
  /// The input whose shape the only output has; SIZE_MAX where it is not as simple as that.
  std::size_t same_as = SIZE_MAX;
  mutable ShapeMemory memory;

  /// Reads and checks it. Throws.
  NodeState(const OperatorDefinition& definition, const KernelDefinition& kernel,
            OpgraftNode* node);

  /// Throws where the elements of an input are not in host memory: `who` reads them.
  void CheckOnHost(std::size_t index, const char* who) const;

  /// Throws where none is declared of this name.
  const AttributeValue& Attribute(std::string_view attribute) const;
};

/// The value of one attribute of a node, or the default. Throws where it must be there and is not.
template <class Host>
AttributeValue ReadAttribute(Host* host, const AttributeDefinition& definition);
extern template AttributeValue ReadAttribute(OpgraftNode*, const AttributeDefinition&);
extern template AttributeValue ReadAttribute(OpgraftInference*, const AttributeDefinition&);

/// The elements of a string tensor, which is input `index`, as C++ strings.
std::vector<std::string> ToStrings(const OpgraftTensor& tensor, std::size_t index);

/// The number of elements of an output; throws a ShapeError where a size is negative, or where so
/// many elements of `element_size` bytes cannot be.
std::size_t CheckedCount(std::span<const std::int64_t> shape, std::size_t element_size);

/// Throw what is wrong with input or output `index`: its type, that it is absent, allocated twice
/// or not at all.
[[noreturn]] void RefuseType(const char* what, std::size_t index, std::int32_t came,
                             std::int32_t expected);
[[noreturn]] void RefuseSecond(const NodeState& state, std::size_t index);
[[noreturn]] void RefuseMissing(const NodeState& state, std::size_t index);

}  // namespace internal

/// What a kernel with state may know when it is made: its constructor takes one.
class KernelInfo {
 public:
  KernelInfo(const internal::NodeState& state, OpgraftNode* node) : state_(state), node_(node) {}

  const std::string& node_name() const { return state_.name; }
  /// With those that are absent, but for the last ones.
  std::size_t input_count() const { return state_.input_count; }
  std::size_t output_count() const { return state_.output_count; }
  /// ONNX's number of an input's type; 0 where it is absent.
  std::int32_t input_type(std::size_t index) const {
    std::int32_t type = 0;
    if (index < state_.input_count) internal::Check(node_->table->input_type(node_, index, &type));
    return type;
  }

  /// Of the node, or the default. Throws where no such attribute is declared, or it has no value.
  template <class A>
  const A& Attribute(std::string_view name) const {
    if (const A* const value = FindAttribute<A>(name)) return *value;
    throw std::invalid_argument("attribute '" + std::string(name) +
                                "' has no value of the kind that the kernel asks for");
  }
  /// nullptr where it has no value of this kind.
  template <class A>
  const A* FindAttribute(std::string_view name) const {
    static_assert(kAttributeKind<A> != 0,
                  "attributes are float, std::int64_t, std::string, vectors of these, or "
                  "opgraft::TensorValue");
    return std::get_if<A>(&state_.Attribute(name));
  }

  /// The elements of an input that is the same in every run; nullopt where it is not.
  template <class T>
  std::optional<std::vector<T>> Constant(std::size_t index) const {
    OpgraftTensor tensor = {};
    if (index >= state_.input_count) return std::nullopt;
    state_.CheckOnHost(index, "the kernel");
    internal::Check(node_->table->constant(node_, index, &tensor));
    if (tensor.element_type == 0) return std::nullopt;
    if (tensor.element_type != kElementType<T>) {
      internal::RefuseType("constant input", index, tensor.element_type, kElementType<T>);
    }
    if constexpr (std::is_same_v<T, std::string>) {
      return internal::ToStrings(tensor, index);
    } else {
      const Tensor<const T> view(static_cast<const T*>(tensor.data), {tensor.shape, tensor.rank});
      return std::vector<T>(view.begin(), view.end());
    }
  }

 private:
  const internal::NodeState& state_;
  OpgraftNode* const node_;
};

/// The services of the host during one run. A kernel that wants it takes it as its first argument.
class Context {
 public:
  Context(const internal::NodeState& state, OpgraftCall* call) : state_(state), call_(call) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const std::string& node_name() const { return state_.name; }

  /// Of a kernel for CUDA, the stream of the run, which all its work goes to: a cudaStream_t. Null
  /// is one too, CUDA's default stream. Throws in a kernel for the CPU.
  CUstream_st* stream() {
    if (state_.kernel->IsForCpu()) throw std::logic_error("a kernel for the CPU has no stream");
    void* stream = nullptr;
    internal::Check(call_->table->stream(call_, &stream));
    return static_cast<CUstream_st*>(stream);
  }

  /// Memory from the runtime's allocator, until the kernel returns; not set to anything. Throws in
  /// the body of a parallel loop: the host is asked for it by one thread alone. In a kernel for
  /// CUDA it is memory of the GPU, until the work is done that the kernel puts on the stream: only
  /// its data() is of use to the host.
  template <class T>
  std::span<T> Scratch(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>, "scratch memory is given back as it is");
    if (is_looping_) {
      throw std::logic_error(
          "Scratch is called in the body of a parallel loop; call it before the loop, for all "
          "parts at once");
    }
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    void* memory = nullptr;
    internal::Check(call_->table->scratch(call_, count * sizeof(T), &memory));
    return {static_cast<T*>(memory), count};
  }

  /// Calls `body(i)` for each i below `total` on the runtime's own threads, this one among them, in
  /// so many batches (0: as the runtime thinks best). An exception of the body comes out of here.
  template <class Body>
  void ParallelFor(std::size_t total, const Body& body, std::size_t batches = 0) {
    struct Loop {
      const Body& body;
      std::atomic<bool> has_failed = false;
      std::exception_ptr exception = nullptr;
    } loop{body};
    const auto run = [](void* argument, std::size_t index) {
      auto& self = *static_cast<Loop*>(argument);
      if (self.has_failed.load(std::memory_order_relaxed)) return;
      try {
        self.body(index);
      } catch (abi::__forced_unwind&) {
        throw;
      } catch (...) {
        if (!self.has_failed.exchange(true)) self.exception = std::current_exception();
      }
    };
    const bool was_looping = is_looping_;
    if (!was_looping) is_looping_ = true;  // the threads of an inner loop read it
    const int failed = call_->table->parallel_for(call_, total, batches, run, &loop);
    if (!was_looping) is_looping_ = false;
    internal::Check(failed);
    if (loop.exception != nullptr) std::rethrow_exception(loop.exception);
  }

  /// As ParallelFor, over ranges: calls `body(first, last)` for parts of about `grain` or more of
  /// what is below `total`; at once and here where that is one part.
  template <class Body>
  void ParallelRanges(std::size_t total, std::size_t grain, const Body& body) {
    const std::size_t most = grain > 0 ? (total + grain - 1) / grain : total;
    if (most <= 1) {
      if (total > 0) body(std::size_t{0}, total);
      return;
    }
    constexpr std::size_t kMostParts = 256;
    const std::size_t parts = most < kMostParts ? most : kMostParts;
    ParallelFor(parts, [&](std::size_t part) {
      const std::size_t size = total / parts;
      const std::size_t more = total % parts;
      const std::size_t first = part * size + (part < more ? part : more);
      body(first, first + size + (part < more ? 1 : 0));
    });
  }

  /// Whether it is the body of a parallel loop that asks.
  bool is_looping() const { return is_looping_; }

  /// Writes to the runtime's log, where it is set to such messages.
  void Log(Severity severity, std::string_view message) {
    const OpgraftText text = {message.data(), message.size()};
    internal::Check(call_->table->log(call_, static_cast<std::int32_t>(severity), &text));
  }

 private:
  const internal::NodeState& state_;
  OpgraftCall* const call_;
  bool is_looping_ = false;
};

namespace internal {

/// The shapes of a run's outputs, by the operator's rules.
class OutputShapes {
 public:
  /// Throws a ShapeError where shapes do not go together. The views are of this object, or of the
  /// inputs.
  OutputShapes(const NodeState& state, std::span<const OpgraftTensor> inputs, std::size_t outputs);
  OutputShapes(const OutputShapes&) = delete;
  OutputShapes& operator=(const OutputShapes&) = delete;

  /// Throws a ShapeError where the rule does not tell.
  std::span<const std::int64_t> operator[](std::size_t index) const {
    return is_same_ ? first_ : Find(index);
  }

 private:
  /// Whether the memory has them.
  bool Recall(std::span<const OpgraftTensor> inputs, std::size_t outputs);
  void Remember(std::span<const OpgraftTensor> inputs, std::size_t outputs) const;
  std::span<const std::int64_t> Find(std::size_t index) const;
  std::span<const std::int64_t> flat() const {
    return {many_.empty() ? few_.data() : many_.data(), size_};
  }

  const NodeState& state_;
  bool is_same_ = false;
  std::span<const std::int64_t> first_;  // of an operator with one output, as an input
  // Otherwise: of each output the rank, then the sizes. A few without a visit to the heap.
  std::size_t size_ = 0;
  std::array<std::int64_t, 12> few_;
  std::vector<std::int64_t> many_;
};

}  // namespace internal
}  // namespace opgraft
#pragma GCC visibility pop
