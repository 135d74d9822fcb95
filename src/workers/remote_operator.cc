// Copies inputs into the memory of a worker, and outputs out of it. What comes back is checked.
#include "workers/remote_operator.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/element_type.h"
#include "base/text.h"
#include "bridge/interpreter.h"
#include "workers/message.h"
#include "workers/pool.h"
#include "workers/process.h"

namespace opgraft::workers {
namespace {

constexpr std::size_t kLongestText = std::size_t{256} * 1024;
constexpr double kDropSeconds = 1;

/// The bridge of a host that is a Python program; nullptr for any other host.
const pyop::Bridge* HostPython() {
  const pyop::Bridge* bridge = nullptr;
  return pyop::IsPythonRunning() && pyop::GetBridge(&bridge).ok() ? bridge : nullptr;
}

Clock::time_point After(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

bool FitsDeclared(std::span<const std::int64_t> shape, const pyop::DeclaredShape& declared) {
  if (!declared) return true;
  if (declared->size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if ((*declared)[i] >= 0 && (*declared)[i] != shape[i]) return false;
  }
  return true;
}

/// Any bytes but 0 and 1 are no bool; code that the compiler made from bools may do anything.
void CopyTensor(std::int64_t element_type, void* to, const std::byte* from, std::size_t size) {
  constexpr std::int64_t kBool = 9;
  if (element_type != kBool) {
    std::memcpy(to, from, size);
    return;
  }
  auto* const bytes = static_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = from[i] != std::byte{0} ? 1 : 0;
}

class RemoteOperator final : public pyop::Operator {
 public:
  RemoteOperator(const pyop::Spec& spec, std::string policy, std::string path,
                 const Options& options, std::int64_t session)
      : spec_(spec),
        policy_(std::move(policy)),
        path_(std::move(path)),
        options_(options),
        session_(session) {}
  RemoteOperator(const RemoteOperator&) = delete;
  RemoteOperator& operator=(const RemoteOperator&) = delete;

  ~RemoteOperator() override {
    Pool& pool = Pool::OfThisProcess();
    pool.Drop(options_, id_);
    Pool::Lease lease;
    while (pool.TakeFreeWith(options_, id_, &lease)) {
      lease->operators.erase(id_);
      lease->dropped.push_back(id_);
      try {
        static_cast<void>(SendDropped(&*lease));
      } catch (const std::exception&) {
        static_cast<void>(lease->Discard());
      }
      lease.GiveBack();
    }
  }

  Status Create() {
    ActiveCall active;
    Attempt attempt(active);
    Status status = Pool::OfThisProcess().Take(options_, id_, 0, attempt.patience, &attempt.lease);
    if (status.ok()) return Ensure(&attempt);
    return attempt.interruption.ok() ? Status(status.kind(), spec_.Who() + ": " + status.message())
                                     : attempt.interruption;
  }

  Status Compute(pyop::Call& call) noexcept override try {
    Pool& pool = Pool::OfThisProcess();
    ActiveCall active;
    active.session = session_;
    const Entered entered(&pool, &active);
    Status status;
    for (int retry = 0;; ++retry) {
      Attempt attempt(active);
      try {
        status = Try(&pool, call, &attempt);
      } catch (const std::exception&) {
        // The worker may wait for an answer: its next reply would be one to this call.
        if (attempt.lease.operator->() != nullptr) static_cast<void>(attempt.lease->Discard());
        throw;
      }
      if (!attempt.may_retry || !is_pure_ || retry >= options_.retries) break;
    }
    return status;
  } catch (const std::exception& exception) {
    return Status::Error(spec_.Who() + ": " + exception.what());
  }

 private:
  /// Makes a call known to the pool until the end of the scope, however that is left.
  struct Entered {
    Entered(Pool* in, ActiveCall* known) : pool(*in), call(known) { pool.Enter(call); }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    ~Entered() { pool.Leave(call); }
    Pool& pool;
    ActiveCall* const call;
  };

  struct Attempt {
    explicit Attempt(const ActiveCall& active) {
      patience.is_cancelled = &active.is_cancelled;
      // Python's handler for Ctrl-C runs in the main thread alone, which is here.
      if (gettid() != getpid() || !pyop::IsPythonRunning()) return;
      patience.interrupted = [this] {
        if (const pyop::Bridge* const bridge = HostPython(); bridge != nullptr) {
          interruption = bridge->check_signals();
        }
        return interruption;
      };
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

    void Begin(double timeout) {
      patience.timeout = timeout;
      patience.deadline = timeout > 0 ? After(timeout) : Clock::time_point::max();
    }

    Patience patience;
    Pool::Lease lease;
    Status interruption;
    bool may_retry = false;
  };

  /// The error of an exchange, which has no name of an operator yet.
  Status Named(const Status& status, const Attempt& attempt) const {
    if (!attempt.interruption.ok()) return attempt.interruption;
    return Status(status.kind(), spec_.Who() + ": its " + status.message());
  }

  Status Malformed(Attempt* attempt) const { return Named(attempt->lease->Discard(), *attempt); }

  Status SendDropped(Process* process) const {
    if (process->dropped.empty()) return Status();
    std::string message;
    Writer writer(&message);
    writer.Kind(Request::kDrop);
    writer.Number(process->dropped.size());
    for (const std::uint64_t one : process->dropped) writer.Number(one);
    process->dropped.clear();
    Patience patience;
    patience.timeout = kDropSeconds;
    patience.deadline = After(kDropSeconds);
    return process->Exchange(std::string_view(message), patience, &message);
  }

  /// Makes the operator in the worker of the attempt, unless it is there.
  Status Ensure(Attempt* attempt) {
    Process& process = *attempt->lease;
    if (Status status = SendDropped(&process); !status.ok()) return Named(status, *attempt);
    if (process.operators.contains(id_)) return Status();
    std::string message;
    Writer writer(&message);
    writer.Kind(Request::kCreate);
    writer.Number(id_);
    WriteSpec(spec_, &writer);
    writer.Text(policy_);
    writer.Text(path_);
    std::string reply;
    attempt->Begin(options_.start_timeout);  // it may import much, and is not the call
    Status status = process.Exchange(std::string_view(message), attempt->patience, &reply);
    if (!status.ok()) return Named(status, *attempt);
    Reader reader(reply);
    const auto kind = reader.Kind<Reply>();
    if (kind == Reply::kError) return ReadError(&reader, attempt);
    const bool is_pure = reader.Number() != 0;
    const bool is_single = reader.Number() != 0;
    if (!reader.ok() || kind != Reply::kDone) return Malformed(attempt);
    process.operators.insert(id_);
    is_pure_ = is_pure;
    is_single_ = is_single;
    only_ = is_single ? process.serial() : 0;
    return Status();
  }

  /// Waits until no other call chooses the worker of an operator that is to have one object: two
  /// calls after the end of its worker would make two.
  Status AwaitChoice(const Attempt& attempt, std::unique_lock<std::timed_mutex>* choice) const {
    while (is_single_ && !choice->try_lock_for(std::chrono::milliseconds(20))) {
      if (attempt.patience.is_cancelled->load()) {
        return Status::PyOp("call was cancelled while it waited for a free worker process");
      }
      if (!attempt.patience.interrupted) continue;
      if (Status status = attempt.patience.interrupted(); !status.ok()) return status;
    }
    return Status();
  }

  Status Try(Pool* pool, pyop::Call& call, Attempt* attempt) {
    std::unique_lock choice(choosing_, std::defer_lock);
    Status status = AwaitChoice(*attempt, &choice);
    if (status.ok()) {
      status = pool->Take(options_, id_, only_, attempt->patience, &attempt->lease);
    }
    if (!status.ok()) {
      if (!attempt->interruption.ok()) return attempt->interruption;
      return Status(status.kind(), spec_.Who() + ": its " + status.message());
    }
    if (status = Ensure(attempt); !status.ok()) {
      attempt->may_retry = attempt->lease->has_ended_itself();
      return status;
    }
    if (choice.owns_lock()) choice.unlock();
    Process& process = *attempt->lease;
    std::size_t request = 0;
    std::uint64_t bytes = 0;
    if (status = WriteInputs(call, &process.memory(), &request, &bytes); !status.ok()) {
      return Status(status.kind(), spec_.Who() + ": " + status.message());
    }
    attempt->Begin(options_.timeout);
    std::string reply;
    status = process.Exchange(request, attempt->patience, &reply);
    attempt->may_retry = !status.ok() && process.has_ended_itself();
    while (status.ok()) {
      Reader reader(reply);
      const auto kind = reader.Kind<Reply>();
      if (kind == Reply::kError || kind == Reply::kLastError) {
        status = ReadError(&reader, attempt);
        if (kind == Reply::kLastError) static_cast<void>(process.Discard());
        return status;
      }
      if (kind == Reply::kDone) {
        status = ReadOutputs(&reader, call, attempt, &bytes);
        pool->CountCall(bytes);
        return status;
      }
      const std::uint64_t index = reader.Number();
      if (!reader.ok() || kind != Reply::kQuestion || index >= spec_.output_types.size()) {
        return Malformed(attempt);
      }
      bool is_unwanted = false;
      const Status asked = call.IsUnwanted(index, &is_unwanted);
      std::string answer;
      Writer writer(&answer);
      writer.Kind(Request::kAnswer);
      writer.Number(asked.ok() && is_unwanted ? 1 : 0);
      status = process.Exchange(std::string_view(answer), attempt->patience, &reply);
    }
    return Named(status, *attempt);
  }

  /// Writes the request and the tensors behind it.
  Status WriteInputs(pyop::Call& call, SharedMemory* memory, std::size_t* request,
                     std::uint64_t* bytes) const {
    struct Part {
      const void* from;
      std::size_t offset;
      std::size_t size;
    };
    std::vector<Part> parts;
    std::string message;
    Writer writer(&message);
    writer.Kind(Request::kCompute);
    writer.Number(id_);
    const std::span<const pyop::TensorView> inputs = call.inputs();
    writer.Number(inputs.size());
    std::size_t end = 0;  // relative to where the tensors begin
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const pyop::TensorView& input = inputs[i];
      const bool is_text = input.element_type == kString;
      writer.Kind(input.data == nullptr ? Form::kAbsent : is_text ? Form::kTexts : Form::kMemory);
      if (input.data == nullptr) continue;
      std::size_t size = 0;
      if (!TensorSize(input.element_type, input.shape, &size)) {
        return Status::Model("input " + std::to_string(i) + " is " +
                             ElementTypeName(input.element_type) +
                             ", which a Python operator cannot take");
      }
      writer.Number(static_cast<std::uint64_t>(input.element_type));
      writer.Numbers(input.shape);
      if (is_text) {
        std::string storage;
        std::vector<std::string_view> texts;
        if (Status status = call.ReadStrings(i, &storage, &texts); !status.ok()) return status;
        writer.Texts(texts);
        continue;
      }
      end = Aligned(end);
      writer.Number(end);
      writer.Number(size);
      parts.push_back({input.data, end, size});
      end += size;
    }
    *bytes += end;
    *request = message.size();
    const std::size_t begin = Aligned(kContents + message.size());
    if (Status status = memory->Reserve(begin + end); !status.ok()) return status;
    std::memcpy(memory->at(kContents), message.data(), message.size());
    for (const Part& part : parts) {
      std::memcpy(memory->at(begin + part.offset), part.from, part.size);
    }
    return Status();
  }

  Status ReadOutputs(Reader* reader, pyop::Call& call, Attempt* attempt,
                     std::uint64_t* bytes) const {
    if (reader->Number() != spec_.output_types.size()) return Malformed(attempt);
    const SharedMemory& memory = attempt->lease->memory();
    for (std::size_t i = 0; i < spec_.output_types.size(); ++i) {
      const auto form = reader->Kind<Form>();
      if (form == Form::kAbsent && reader->ok()) {
        bool is_unwanted = false;
        if (Status status = call.IsUnwanted(i, &is_unwanted); !status.ok()) return status;
        if (!is_unwanted) return Malformed(attempt);
        continue;
      }
      const bool is_text = spec_.output_types[i] == kString;
      const std::vector<std::int64_t> shape = reader->Numbers();
      std::size_t size = 0;
      if (!reader->ok() || form != (is_text ? Form::kTexts : Form::kMemory) ||
          !TensorSize(spec_.output_types[i], shape, &size) ||
          (i < spec_.output_shapes.size() && !FitsDeclared(shape, spec_.output_shapes[i]))) {
        return Malformed(attempt);
      }
      const auto named = [&](const Status& status) {
        return Status(status.kind(), spec_.Who() + ": output " + std::to_string(i) +
                                         ", for which " + spec_.Callee() +
                                         " returned an array of shape (" + DimensionsText(shape) +
                                         "): " + status.message());
      };
      if (is_text) {
        const std::vector<std::string_view> texts = reader->Texts();
        if (!reader->ok() || texts.size() != size) return Malformed(attempt);
        if (Status status = call.StoreStrings(i, shape, texts); !status.ok()) return named(status);
        continue;
      }
      const std::uint64_t offset = reader->Number();
      if (!reader->ok() || !memory.Has(offset, size)) return Malformed(attempt);
      void* data = nullptr;
      if (Status status = call.Allocate(i, shape, &data); !status.ok()) return named(status);
      if (data != nullptr) CopyTensor(spec_.output_types[i], data, memory.at(offset), size);
      *bytes += size;
    }
    return Status();
  }

  /// Reads an error, with its exception, which a Python program gets as `__cause__`.
  Status ReadError(Reader* reader, Attempt* attempt) const {
    const std::uint64_t kind = reader->Number();
    const std::string_view text = reader->Text();
    const std::string_view exception = reader->Text();
    if (!reader->ok() || kind < 1 || kind > static_cast<std::uint64_t>(ErrorKind::kUnavailable) ||
        text.size() > kLongestText || exception.size() > kLongestText) {
      return Malformed(attempt);
    }
    std::string message = Readable(text);
    const pyop::Bridge* const bridge = exception.empty() ? nullptr : HostPython();
    if (bridge != nullptr) {
      const long long number = bridge->keep_exception(std::string(exception));
      if (number > 0) message.insert(0, "[" + std::to_string(number) + "] ");
    }
    return Status(static_cast<ErrorKind>(kind), message);
  }

  const pyop::Spec spec_;
  const std::string policy_;
  const std::string path_;
  const Options options_;
  const std::int64_t session_;
  const std::uint64_t id_ = Pool::OfThisProcess().NextNumber();
  std::atomic<bool> is_pure_ = false;
  std::atomic<bool> is_single_ = false;
  std::timed_mutex choosing_;
  std::atomic<std::uint64_t> only_ = 0;  ///< the one worker that has the operator, or 0
};

}  // namespace

Status CreateRemote(const pyop::Spec& spec, const std::string& allow, const Options& options,
                    std::int64_t session, std::unique_ptr<pyop::Operator>* made) {
  if (spec.on_gpu) {
    return Status::Unavailable(
        spec.Who() +
        ": it runs on a GPU (device=\"cuda\"), whose memory is not shared with worker processes. "
        "Fix: run it in a session without isolation");
  }
  if (spec.module == "__main__") {
    return Status::PyOp(
        spec.Who() +
        ": it is defined in '__main__', the running program, which a worker process "
        "cannot import. Fix: put it into a module of its own");
  }
  Options own = options;
  std::string path;
  if (const pyop::Bridge* const bridge = HostPython(); bridge != nullptr) {
    std::string executable;
    Status status = bridge->describe_python(own.python, &executable, &path);
    if (!status.ok()) return Status(status.kind(), spec.Who() + ": " + status.message());
    own.python = executable;
  }
  auto created = std::make_unique<RemoteOperator>(spec, allow, path, own, session);
  Status status = created->Create();
  if (status.ok()) *made = std::move(created);
  return status;
}

}  // namespace opgraft::workers
