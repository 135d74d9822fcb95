// The loop of a worker: waits for a request, replies. Ends with its host, however that ends.
#include "workers/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/element_type.h"
#include "workers/message.h"
#include "workers/shared_memory.h"

namespace opgraft::workers {
namespace {

constexpr std::int64_t kLongWait = 10'000'000'000;

ino_t NodeOf(int descriptor) {
  struct stat found = {};
  return fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

/// Ends this process and what it has forked.
[[noreturn]] void EndAll() {
  if (getpgrp() == getpid()) kill(0, SIGKILL);
  _exit(1);
}

/// Ends the process when its host has ended. The operators may have closed the descriptor.
void Watch(pid_t host, ino_t control) {
  while (true) {
    pollfd hung_up = {kControl, POLLRDHUP, 0};
    poll(&hung_up, 1, 1000);
    if (getppid() != host) EndAll();
    if (NodeOf(kControl) == control && (hung_up.revents & (POLLHUP | POLLRDHUP)) != 0) EndAll();
    if (NodeOf(kControl) != control) sleep(1);
  }
}

void Limit(int resource, rlim_t soft, rlim_t hard) {
  const rlimit limit = {soft, hard};
  setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

class Server {
 public:
  explicit Server(const Python& python) : python_(python) {}

  Status Run() {
    if (Status status = memory_.Open(kMemory); !status.ok()) return status;
    if (memory_.header()->version != pyop::kBridgeVersion) {
      return Status::Unavailable(
          "the package opgraft of this worker's Python is of another version "
          "than the host's libopgraft");
    }
    SetUp();
    Reply(std::string());
    while (true) {
      AwaitRequest();
      Handle();
    }
  }

  /// The tensors of one call, in the shared memory.
  class SharedCall final : public pyop::Call {
   public:
    SharedCall(Server& server, const pyop::Spec& spec, std::size_t begin)
        : server_(server), outputs_(spec.output_types.size()), begin_(begin), end_(begin) {
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        outputs_[i].element_type = spec.output_types[i];
      }
    }

    bool Read(Reader* reader) {
      const std::uint64_t count = reader->Number();
      if (!reader->ok() || count > kMostInputs) return false;
      shapes_.resize(count);
      texts_.resize(count);
      views_.resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto form = reader->Kind<Form>();
        if (form == Form::kAbsent) continue;
        views_[i].element_type = static_cast<std::int64_t>(reader->Number());
        shapes_[i] = reader->Numbers();
        views_[i].shape = shapes_[i];
        if (form == Form::kTexts) {
          texts_[i] = reader->Texts();
          views_[i].data = &texts_[i];
          continue;
        }
        const std::size_t offset = begin_ + reader->Number();
        const std::size_t size = reader->Number();
        if (!reader->ok() || !server_.memory_.Has(offset, size)) return false;
        views_[i].data = server_.memory_.at(offset);
        end_ = std::max(end_, offset + size);
      }
      return reader->ok();
    }

    std::span<const pyop::TensorView> inputs() const override { return views_; }

    Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) override {
      *data = nullptr;
      Output& output = outputs_[index];
      std::size_t size = 0;
      if (!TensorSize(output.element_type, shape, &size)) {
        return Status::Error("there is no tensor of this size");
      }
      // A process that the operator has forked must not write to the outputs of this one.
      if (getpid() != server_.process_) return Status::Error("this is a forked child");
      std::byte* place = nullptr;
      Status status = server_.memory_.Extend(size, &end_, &place);
      if (!status.ok()) return Status::Error("there is no memory left for it: " + status.message());
      output.form = Form::kMemory;
      output.shape.assign(shape.begin(), shape.end());
      output.offset = end_;
      output.size = size;
      end_ += size;
      if (size > 0) *data = place;
      return Status();
    }

    Status ReadStrings(std::size_t index, std::string*,
                       std::vector<std::string_view>* strings) override {
      *strings = texts_[index];
      return Status();
    }

    Status StoreStrings(std::size_t index, std::span<const std::int64_t> shape,
                        std::span<const std::string_view> strings) override {
      Output& output = outputs_[index];
      output.form = Form::kTexts;
      output.shape.assign(shape.begin(), shape.end());
      output.texts.assign(strings.begin(), strings.end());
      return Status();
    }

    Status IsUnwanted(std::size_t index, bool* is_unwanted) override {
      std::string question;
      Writer writer(&question);
      writer.Kind(opgraft::workers::Reply::kQuestion);
      writer.Number(index);
      server_.Reply(question, end_);
      server_.AwaitRequest();
      // Nothing is mapped anew meanwhile, since the operator's arrays lie in this memory.
      Reader reader(server_.Message());
      *is_unwanted = reader.Kind<Request>() == Request::kAnswer && reader.Number() != 0;
      return Status();
    }

    void Write(Writer* writer) const {
      writer->Number(outputs_.size());
      for (const Output& output : outputs_) {
        writer->Kind(output.form);
        if (output.form == Form::kAbsent) continue;
        writer->Numbers(output.shape);
        if (output.form == Form::kTexts) {
          writer->Texts(std::vector<std::string_view>(output.texts.begin(), output.texts.end()));
        } else {
          writer->Number(output.offset);
        }
      }
    }
    std::size_t end() const { return end_; }

   private:
    static constexpr std::uint64_t kMostInputs = 1 << 20;
    struct Output {
      std::int64_t element_type = 0;
      Form form = Form::kAbsent;
      std::vector<std::int64_t> shape;
      std::size_t offset = 0;
      std::size_t size = 0;
      std::vector<std::string> texts;
    };
    Server& server_;
    std::vector<std::vector<std::int64_t>> shapes_;
    std::vector<std::vector<std::string_view>> texts_;
    std::vector<pyop::TensorView> views_;
    std::vector<Output> outputs_;
    const std::size_t begin_;
    std::size_t end_;
  };

 private:
  struct Made {
    pyop::Spec spec;
    std::unique_ptr<pyop::Operator> made;
  };

  void SetUp() {
    // Closes what the host has left open for programs that it starts.
    if (syscall(SYS_close_range, kMemory + 1, ~0U, 0) != 0) {
      for (int i = kMemory + 1; i < 65536; ++i) close(i);
    }
    for (const int descriptor : {kControl, kMemory}) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    process_ = getpid();
    control_ = NodeOf(kControl);
    const Header& header = *memory_.header();
    cpu_limit_ = header.cpu_limit;
    Limit(RLIMIT_CORE, 0, 0);
    std::thread(Watch, header.host, control_).detach();
    if (header.memory_limit != 0) Limit(RLIMIT_AS, header.memory_limit, header.memory_limit);
  }

  void AwaitRequest() {
    ++turn_;
    while (!Await(&memory_.header()->request, turn_, kLongWait)) {
    }
  }

  std::string_view Message() {
    const std::uint64_t size = memory_.header()->request_size.load();
    if (!memory_.Has(kContents, size)) return {};
    return {reinterpret_cast<const char*>(memory_.at(kContents)), size};
  }

  /// Sends a reply, which is put behind `end`.
  void Reply(const std::string& reply, std::size_t end = kContents) {
    std::byte* place = nullptr;
    if (!memory_.Extend(reply.size(), &end, &place).ok()) EndAll();
    std::memcpy(place, reply.data(), reply.size());
    Header* const header = memory_.header();
    header->reply_offset = end;
    header->reply_size = reply.size();
    Post(&header->reply, turn_ == 0 ? ++turn_ : turn_);
  }

  void Fail(const Status& status, std::size_t end = kContents,
            opgraft::workers::Reply kind = opgraft::workers::Reply::kError) {
    long long number = 0;
    const Status plain = Status::FindIn(status.ToString(), &number);
    std::string reply;
    Writer writer(&reply);
    writer.Kind(kind);
    writer.Kind(plain.kind());
    writer.Text(plain.message());
    writer.Text(number != 0 ? python_.take_exception(number) : "");
    Reply(reply, end);
  }

  void Handle() {
    if (Status status = memory_.Refresh(); !status.ok()) return Fail(status);
    const std::string message(Message());  // what lies in the memory is overwritten by the reply
    Reader reader(message);
    switch (reader.Kind<Request>()) {
      case Request::kCreate: return Create(&reader);
      case Request::kCompute: return Compute(&reader, message.size());
      case Request::kDrop: return Drop(&reader);
      default: return Fail(Status::Error("unknown request"));
    }
  }

  void Create(Reader* reader) {
    const std::uint64_t id = reader->Number();
    Made& one = made_[id];
    one = Made();
    ReadSpec(reader, &one.spec);
    const std::string allow(reader->Text());
    const std::string path(reader->Text());
    // What is left of the last call's limit is not for the import of a module.
    if (cpu_limit_ != 0) Limit(RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY);
    Policy policy;
    Status status =
        reader->ok() ? Policy::Parse(allow, "", &policy) : Status::Error("malformed request");
    if (status.ok()) status = python_.find_module(path, one.spec.module);
    if (status.ok()) status = python_.create(one.spec, policy, nullptr, &one.made);
    if (getpid() != process_) _exit(0);
    if (!status.ok()) {
      made_.erase(id);
      return Fail(status);
    }
    const pyop::Traits traits = one.made->traits();
    std::string reply;
    Writer writer(&reply);
    writer.Kind(opgraft::workers::Reply::kDone);
    writer.Number(traits.is_pure ? 1 : 0);
    writer.Number(traits.is_single ? 1 : 0);
    Reply(reply);
  }

  void Compute(Reader* reader, std::size_t request) {
    const auto found = made_.find(reader->Number());
    if (found == made_.end()) return Fail(Status::Error("the worker has no such operator"));
    const Made& one = found->second;
    SharedCall call(*this, one.spec, Aligned(kContents + request));
    if (!call.Read(reader)) return Fail(Status::Error(one.spec.Who() + ": malformed request"));
    if (cpu_limit_ != 0) {
      rusage used = {};
      getrusage(RUSAGE_SELF, &used);
      const auto seconds = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1);
      Limit(RLIMIT_CPU, seconds + cpu_limit_, RLIM_INFINITY);
    }
    const Status status = one.made->Compute(call);
    // A child that the operator has forked, and that has returned from it, is not the worker.
    if (getpid() != process_) _exit(0);
    if (NodeOf(kControl) != control_) {
      Fail(Status::PyOp(one.spec.Who() + ": " + one.spec.Callee() +
                        " closed descriptors that belong to its worker process, which ends"),
           call.end(), opgraft::workers::Reply::kLastError);
      EndAll();
    }
    if (!status.ok()) return Fail(status, call.end());
    std::string reply;
    Writer writer(&reply);
    writer.Kind(opgraft::workers::Reply::kDone);
    call.Write(&writer);
    Reply(reply, call.end());
  }

  void Drop(Reader* reader) {
    const std::uint64_t count = reader->Number();
    for (std::uint64_t i = 0; i < count && reader->ok(); ++i) made_.erase(reader->Number());
    std::string reply;
    Writer(&reply).Kind(opgraft::workers::Reply::kDone);
    Reply(reply);
  }

  const Python& python_;
  SharedMemory memory_;
  std::map<std::uint64_t, Made> made_;
  std::uint32_t turn_ = 0;
  pid_t process_ = 0;
  ino_t control_ = 0;
  std::uint64_t cpu_limit_ = 0;
};

}  // namespace

Status Serve(const Python& python) {
  // Never destroyed: threads of operators may still use its memory.
  return (new Server(python))->Run();
}

}  // namespace opgraft::workers
