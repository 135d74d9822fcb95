// The services of the host for a kernel: queries about its node when it is created, and the context
// of each run.
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

/// Declared by CUDA: a pointer to it is a cudaStream_t and a CUstream.
struct CUstream_st;  // NOLINT(readability-identifier-naming)

#pragma GCC visibility push(hidden)
namespace opgraft {

/// A kernel may throw this to report an error with exactly this text. The text of any other
/// exception follows the words "it threw a C++ exception".
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The severity of a message to the runtime's log.
enum class Severity : std::int32_t {
  kVerbose = 0,
  kInfo = 1,
  kWarning = 2,
  kError = 3,
  kFatal = 4
};

namespace internal {

/// Thrown if the host has already recorded an error: unwinds the kernel and carries no text.
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

/// Calls `body` for the host and turns exceptions into errors. Only the forced unwinding of a
/// thread that is made to exit passes through.
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
    Fail(host, Status::Error("it threw an object that is not a std::exception"));
  }
  return 1;
}

/// The last result of the shape rule, which is used again for inputs of the same shapes.
struct ShapeMemory {
  /// Guards the other members. A run that would have to wait evaluates the rule instead.
  std::atomic_flag is_taken;
  std::size_t output_count = SIZE_MAX;
  /// For each input and each output: the rank, then the sizes; -1 if there is no shape.
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> outputs;
};

/// What a kernel keeps about its node.
struct NodeState {
  const OperatorDefinition* definition = nullptr;
  const KernelDefinition* kernel = nullptr;
  std::string name;
  std::size_t input_count = 0;
  std::size_t output_count = 0;
  std::vector<AttributeValue> attributes;  ///< one for each declared attribute
  /// The input whose shape the only output has; SIZE_MAX if there is no such simple rule.
  std::size_t same_as = SIZE_MAX;
  mutable ShapeMemory memory;

  /// Reads the node and checks it. Throws if it does not fit the definition.
  NodeState(const OperatorDefinition& definition, const KernelDefinition& kernel,
            OpgraftNode* node);

  /// Throws if the elements of an input are not in host memory. `who` is the reader in the message.
  void CheckOnHost(std::size_t index, const char* who) const;

  /// Throws if no attribute of this name is declared.
  const AttributeValue& Attribute(std::string_view attribute) const;
};

/// Reads an attribute of a node, or its default. Throws if a required attribute is absent.
template <class Host>
AttributeValue ReadAttribute(Host* host, const AttributeDefinition& definition);
extern template AttributeValue ReadAttribute(OpgraftNode*, const AttributeDefinition&);
extern template AttributeValue ReadAttribute(OpgraftInference*, const AttributeDefinition&);

/// Returns the elements of a string tensor, which is input `index`, as C++ strings.
std::vector<std::string> ToStrings(const OpgraftTensor& tensor, std::size_t index);

/// Returns the number of elements of an output. Throws a ShapeError if a size is negative, or if so
/// many elements of `element_size` bytes do not fit into the address space.
std::size_t CheckedCount(std::span<const std::int64_t> shape, std::size_t element_size);

/// These throw an error about input or output `index`: it has the wrong element type or is absent,
/// it was allocated twice, or it was not allocated.
[[noreturn]] void RefuseType(const char* what, std::size_t index, std::int32_t came,
                             std::int32_t expected);
[[noreturn]] void RefuseSecond(const NodeState& state, std::size_t index);
[[noreturn]] void RefuseMissing(const NodeState& state, std::size_t index);

}  // namespace internal

/// What a kernel class can query when it is created: its constructor may take a KernelInfo.
class KernelInfo {
 public:
  KernelInfo(const internal::NodeState& state, OpgraftNode* node) : state_(state), node_(node) {}

  const std::string& node_name() const { return state_.name; }
  /// Includes inputs that are absent, except at the end.
  std::size_t input_count() const { return state_.input_count; }
  std::size_t output_count() const { return state_.output_count; }
  /// ONNX's number of an input's element type; 0 if the input is absent.
  std::int32_t input_type(std::size_t index) const {
    std::int32_t type = 0;
    if (index < state_.input_count) internal::Check(node_->table->input_type(node_, index, &type));
    return type;
  }

  /// Returns the node's value or the default. Throws if no such attribute is declared, or if it has
  /// no value of this kind.
  template <class A>
  const A& Attribute(std::string_view name) const {
    if (const A* const value = FindAttribute<A>(name)) return *value;
    throw std::invalid_argument("attribute '" + std::string(name) +
                                "' has no value of the kind that the kernel asks for");
  }
  /// Returns nullptr if the attribute has no value of this kind.
  template <class A>
  const A* FindAttribute(std::string_view name) const {
    static_assert(kAttributeKind<A> != 0,
                  "attributes are float, std::int64_t, std::string, vectors of these, or "
                  "opgraft::TensorValue");
    return std::get_if<A>(&state_.Attribute(name));
  }

  /// Returns the elements of an input that is the same in every run, else nullopt.
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

/// The services of the host during one run. A kernel that needs it takes it as its first argument.
class Context {
 public:
  Context(const internal::NodeState& state, OpgraftCall* call) : state_(state), call_(call) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const std::string& node_name() const { return state_.name; }

  /// In a CUDA kernel: the stream of the run, a cudaStream_t, which takes all the kernel's work.
  /// Null is a valid stream, CUDA's default one. Throws in a CPU kernel.
  CUstream_st* stream() {
    if (state_.kernel->IsForCpu()) throw std::logic_error("a CPU kernel has no stream");
    void* stream = nullptr;
    internal::Check(call_->table->stream(call_, &stream));
    return static_cast<CUstream_st*>(stream);
  }

  /// Allocates memory with the runtime's allocator, valid until the kernel returns and not
  /// initialised. Throws in the body of a parallel loop, because only one thread may ask the host.
  /// In a CUDA kernel it is GPU memory, valid until the work is done that the kernel puts on the
  /// stream; the host may only use its data().
  template <class T>
  std::span<T> Scratch(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>,
                  "scratch memory is freed without calling destructors");
    if (is_looping_) {
      throw std::logic_error(
          "Scratch was called in the body of a parallel loop; call it before the loop, for all "
          "parts at once");
    }
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    void* memory = nullptr;
    internal::Check(call_->table->scratch(call_, count * sizeof(T), &memory));
    return {static_cast<T*>(memory), count};
  }

  /// Calls `body(i)` for each i below `total` on the runtime's threads, including this one, divided
  /// into `batches` (0: the runtime decides). An exception thrown by the body is rethrown here.
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
    if (!was_looping) is_looping_ = true;  // a nested loop must not write it: other threads read it
    const int failed = call_->table->parallel_for(call_, total, batches, run, &loop);
    if (!was_looping) is_looping_ = false;
    internal::Check(failed);
    if (loop.exception != nullptr) std::rethrow_exception(loop.exception);
  }

  /// Like ParallelFor, over ranges: calls `body(first, last)` for parts of [0, total) of about
  /// `grain` or more. Calls it directly on this thread if there is only one part.
  template <class Body>
  void ParallelRanges(std::size_t total, std::size_t grain, const Body& body) {
    const std::size_t grains = grain > 0 ? (total + grain - 1) / grain : total;
    if (grains <= 1) {
      if (total > 0) body(std::size_t{0}, total);
      return;
    }
    constexpr std::size_t kMostParts = 256;
    const std::size_t parts = grains < kMostParts ? grains : kMostParts;
    ParallelFor(parts, [&](std::size_t part) {
      const std::size_t size = total / parts;
      const std::size_t more = total % parts;
      const std::size_t first = part * size + (part < more ? part : more);
      body(first, first + size + (part < more ? 1 : 0));
    });
  }

  /// Whether this is called from the body of a parallel loop.
  bool is_looping() const { return is_looping_; }

  /// Writes to the runtime's log, if its level includes this severity.
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

/// The shapes of a run's outputs according to the operator's rules.
class OutputShapes {
 public:
  /// Throws a ShapeError if the shapes of the inputs do not match. Views point into this object or
  /// into the inputs.
  OutputShapes(const NodeState& state, std::span<const OpgraftTensor> inputs, std::size_t outputs);
  OutputShapes(const OutputShapes&) = delete;
  OutputShapes& operator=(const OutputShapes&) = delete;

  /// Throws a ShapeError if the rule does not give the shape.
  std::span<const std::int64_t> operator[](std::size_t index) const {
    return is_same_ ? first_ : Find(index);
  }

 private:
  /// Returns whether the shapes were found in the node's memory.
  bool Recall(std::span<const OpgraftTensor> inputs, std::size_t outputs);
  void Remember(std::span<const OpgraftTensor> inputs, std::size_t outputs) const;
  std::span<const std::int64_t> Find(std::size_t index) const;
  std::span<const std::int64_t> flat() const {
    return {many_.empty() ? few_.data() : many_.data(), size_};
  }

  const NodeState& state_;
  bool is_same_ = false;
  std::span<const std::int64_t> first_;  // the only output's shape, if it is an input's
  // Otherwise, for each output, the rank and then the sizes. A few need no allocation.
  std::size_t size_ = 0;
  std::array<std::int64_t, 12> few_;
  std::vector<std::int64_t> many_;
};

}  // namespace internal
}  // namespace opgraft
#pragma GCC visibility pop
