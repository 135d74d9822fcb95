// posix_spawn, waitid and signals.
#include "workers/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "bridge/bridge.h"
#include "core/platform.h"
#include "workers/sandbox.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h may lack it

namespace opgraft::workers {
namespace {

using namespace std::chrono_literals;

/// What a worker needs of the host's environment. Everything else may be a secret.
constexpr std::string_view kVariables[] = {"PATH", "HOME",        "USER",         "LOGNAME",
                                           "TZ",   "LANG",        "TMPDIR",       "TMP",
                                           "TEMP", "VIRTUAL_ENV", "CONDA_PREFIX", "OPGRAFT_PATH"};
constexpr std::string_view kPrefixes[] = {"LC_",       "PYTHON", "LD_",  "OMP_",  "MKL_",
                                          "OPENBLAS_", "GOTO",   "KMP_", "NUMBA", "ASAN_",
                                          "TSAN_",     "UBSAN_", "LSAN_"};

/// Nothing must be imported from the current folder, which `-c` puts first on the path. A sandbox
/// is made before anything else is imported, since Landlock does not hold for threads that exist.
constexpr char kWorkerProgram[] =
    "import sys\n"
    "if sys.path[0] == '': del sys.path[0]\n"
    "if len(sys.argv) > 1:\n"
    "    import ctypes, os\n"
    "    confine = ctypes.CDLL(sys.argv[1]).opgraft_confine\n"
    "    confine.restype = ctypes.c_char_p\n"
    "    problem = confine(os.fsencode(sys.argv[2]))\n"
    "    if problem is not None: sys.exit(problem.decode(errors='replace'))\n"
    "from opgraft._base._worker import main\n"
    "main()\n";

/// How long a wait lasts before the worker is looked after.
constexpr std::int64_t kSlice = 20'000'000;
constexpr std::int64_t kTalkingSlice = 1'000'000;
/// Descriptors of ours lie above those that a worker starts with, so that none overwrites another.
constexpr int kLowest = 10;

/// The descriptors of this process's ends, for children that are forked. Without a lock, since a
/// fork may happen at any time.
std::array<std::atomic<int>, 4096> descriptors = {};

void Remember(int descriptor) {
  for (std::atomic<int>& place : descriptors) {
    int expected = 0;
    if (place.compare_exchange_strong(expected, descriptor)) return;
  }
}

void Forget(int descriptor) {
  for (std::atomic<int>& place : descriptors) {
    int expected = descriptor;
    if (place.compare_exchange_strong(expected, 0)) return;
  }
}

/// Closed at the end of the scope.
struct Descriptor {
  int number = -1;
  Descriptor() = default;
  explicit Descriptor(int low) {
    number = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, kLowest) : -1;
    if (low >= 0) close(low);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  int Release() { return std::exchange(number, -1); }
};

bool IsPassed(std::string_view variable, const Options& options) {
  const std::string_view name = variable.substr(0, variable.find('='));
  const auto is_name = [&](std::string_view one) { return one == name; };
  return std::ranges::any_of(kVariables, is_name) ||
         std::ranges::any_of(options.environment, is_name) ||
         std::ranges::any_of(kPrefixes,
                             [&](std::string_view one) { return name.starts_with(one); });
}

std::string SignalName(int number) {
  switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    case SIGABRT: return "SIGABRT";
    case SIGKILL: return "SIGKILL";
    case SIGTERM: return "SIGTERM";
    case SIGXCPU: return "SIGXCPU, the limit of its processor time";
    default: return "signal " + std::to_string(number);
  }
}

std::string Seconds(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace

void CloseAllInChild() {
  for (std::atomic<int>& place : descriptors) {
    if (const int descriptor = place.exchange(0); descriptor != 0) close(descriptor);
  }
}

Process::~Process() {
  Kill();
  for (const int descriptor : remembered_) Forget(descriptor);
  if (control_ >= 0) close(control_);
}

Status Process::Spawn(const Options& options) {
  int sockets[2];
  int output[2];
  int errors[2];
  const auto failed = [](const char* what) {
    return Status::Unavailable(std::string("cannot start a worker process: ") + what + ": " +
                               std::strerror(errno));
  };
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return failed("socketpair");
  Descriptor ours(sockets[0]);
  const Descriptor theirs(sockets[1]);
  if (pipe2(output, O_CLOEXEC) != 0) return failed("pipe");
  Descriptor from_output(output[0]);
  const Descriptor to_output(output[1]);
  if (pipe2(errors, O_CLOEXEC) != 0) return failed("pipe");
  Descriptor from_errors(errors[0]);
  const Descriptor to_errors(errors[1]);
  const Descriptor file(fcntl(memory_.file(), F_DUPFD_CLOEXEC, kLowest));
  if (std::min({ours.number, theirs.number, from_output.number, to_output.number,
                from_errors.number, to_errors.number, file.number}) < 0) {
    return failed("fcntl");
  }
  fcntl(from_output.number, F_SETFL, O_NONBLOCK);
  fcntl(from_errors.number, F_SETFL, O_NONBLOCK);

  const char* chosen = std::getenv("OPGRAFT_PYTHON");
  const std::string python = !options.python.empty()                ? options.python
                             : chosen != nullptr && *chosen != '\0' ? chosen
                                                                    : "python3";
  std::vector<char*> arguments;
  for (const char* argument : {python.c_str(), "-c", kWorkerProgram}) {
    arguments.push_back(const_cast<char*>(argument));
  }
  const std::string library = platform::PathOf(reinterpret_cast<const void*>(&opgraft_confine));
  if (options.sandbox) {
    arguments.push_back(const_cast<char*>(library.c_str()));
    arguments.push_back(const_cast<char*>(options.writable.c_str()));
  }
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (IsPassed(*variable, options)) environment.push_back(*variable);
  }
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  const int ends[] = {to_output.number, to_errors.number, theirs.number, file.number};
  for (int i = 0; i < 4; ++i) posix_spawn_file_actions_adddup2(&actions, ends[i], i + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: Ctrl-C is the host's, and what the worker forks can be ended with it.
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(&process_, python.c_str(), &actions, &attributes, arguments.data(),
                                 environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    process_ = -1;
    return Status::Unavailable("cannot run '" + python +
                               "' for a worker process: " + std::strerror(error) +
                               ". Fix: name a python command that has the package opgraft");
  }
  remembered_ = {ours.number, from_output.number, from_errors.number, memory_.file()};
  for (const int descriptor : remembered_) Remember(descriptor);
  control_ = ours.Release();
  output_.Open(from_output.Release());
  errors_.Open(from_errors.Release());
  return Status();
}

Status Process::Start(const Options& options) {
  if (Status status = memory_.Create(); !status.ok()) return status;
  Header* const header = memory_.header();
  header->version = pyop::kBridgeVersion;
  header->host = getpid();
  header->memory_limit = options.memory_limit;
  header->cpu_limit = options.cpu_limit;
  if (Status status = Spawn(options); !status.ok()) return status;
  is_usable_ = true;
  Patience patience;
  patience.timeout = options.start_timeout;
  if (options.start_timeout > 0) {
    patience.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(options.start_timeout));
  }
  std::string ready;
  Status status = Exchange(std::string_view(), patience, &ready);
  if (status.ok()) return status;
  return Status::Unavailable(
      "a worker process cannot start: " + status.message() +
      "\nFix: worker processes need a Python with NumPy and the package opgraft of the same "
      "version; name its command by python=... or OPGRAFT_PYTHON");
}

bool Process::CheckAlive() {
  output_.Drain();
  errors_.Drain();
  if (is_usable_ && HasEnded()) is_usable_ = false;
  return is_usable_;
}

Status Process::Exchange(std::string_view request, const Patience& patience, std::string* reply) {
  if (Status status = memory_.Reserve(kContents + request.size()); !status.ok()) return status;
  std::memcpy(memory_.at(kContents), request.data(), request.size());
  return Exchange(request.size(), patience, reply);
}

Status Process::Exchange(std::size_t request_size, const Patience& patience, std::string* reply) {
  output_.Begin();
  errors_.Begin();
  Header* header = memory_.header();
  header->request_size.store(request_size, std::memory_order_relaxed);
  Post(&header->request, ++turn_);
  if (Status status = AwaitReply(patience); !status.ok()) return status;
  if (Status status = memory_.Refresh(); !status.ok()) {
    return End("was ended: " + status.message());
  }
  header = memory_.header();
  const std::uint64_t offset = header->reply_offset.load();
  const std::uint64_t size = header->reply_size.load();
  if (!memory_.Has(offset, size)) return Discard();
  try {
    reply->assign(reinterpret_cast<const char*>(memory_.at(offset)), size);
  } catch (const std::exception&) {
    return Discard();  // it is larger than the memory that is left
  }
  output_.Drain();
  errors_.Drain();
  return Status();
}

Status Process::AwaitReply(const Patience& patience) {
  Header* const header = memory_.header();
  std::int64_t slice = kSlice;
  while (true) {
    const auto left = patience.deadline - Clock::now();
    const std::int64_t wait =
        patience.deadline == Clock::time_point::max()
            ? slice
            : std::clamp<std::int64_t>(std::chrono::nanoseconds(left).count(), 1, slice);
    if (Await(&header->reply, turn_, wait)) return Status();
    const bool has_output = output_.Drain() | errors_.Drain();
    slice = has_output ? kTalkingSlice : kSlice;
    if (HasEnded()) {
      // It may have replied just before.
      if (Await(&header->reply, turn_, 0)) return Status();
      has_ended_itself_ = true;
      return End(HowItEnded());
    }
    if (patience.is_cancelled != nullptr && patience.is_cancelled->load()) {
      return End("was ended, since the call was cancelled");
    }
    if (Clock::now() >= patience.deadline) {
      return End("did not reply within " + Seconds(patience.timeout) + ", and was ended");
    }
    if (patience.interrupted) {
      if (Status status = patience.interrupted(); !status.ok()) {
        Kill();
        return status;
      }
    }
  }
}

bool Process::HasEnded() {
  if (process_ < 0) return true;
  siginfo_t information = {};
  if (waitid(P_PID, static_cast<id_t>(process_), &information, WEXITED | WNOHANG | WNOWAIT) != 0) {
    is_known_ = false;  // the host reaps its children itself
    return true;
  }
  if (information.si_pid == 0) return false;
  code_ = information.si_code;
  status_ = information.si_status;
  return true;
}

std::string Process::HowItEnded() {
  if (!is_known_) return "ended";
  if (code_ == CLD_EXITED) {
    return "ended with the exit status " + std::to_string(status_) +
           ": the operator, or code that it called, left the process";
  }
  return "was ended by " + SignalName(status_);
}

Status Process::Discard() { return End("sent a malformed reply, and was ended"); }

Status Process::End(const std::string& what) {
  Kill();
  output_.Drain();
  errors_.Drain();
  const std::string tail = Readable(errors_.tail());
  return Status::PyOp("worker process " + what +
                      (tail.empty() ? "" : "\nThe end of its standard error:\n" + tail));
}

void Process::Kill() {
  is_usable_ = false;
  if (process_ < 0) return;
  if (is_known_) {
    // The group lives as long as the process is not reaped, so that its number means no other one.
    kill(-process_, SIGKILL);
    kill(process_, SIGKILL);
    siginfo_t information = {};
    while (waitid(P_PID, static_cast<id_t>(process_), &information, WEXITED) != 0 &&
           errno == EINTR) {
    }
  }
  process_ = -1;
}

}  // namespace opgraft::workers
