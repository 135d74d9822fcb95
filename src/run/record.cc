// A page of memory, shared with a file if there is one; signal handlers only read it and write
// text.
#include "run/record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "adapter/running.h"

namespace opgraft::run {
namespace {

constexpr std::size_t kThreads = 64;  // further threads are not recorded
using Text = std::array<char, 256>;

struct Page {
  std::array<char, 64> state;
  std::array<Text, kThreads> running;
};

Page own_page = {};
Page* page = &own_page;
std::atomic<std::size_t> used = 0;

void Copy(const char* text, char* place, std::size_t size) {
  const std::size_t length = strnlen(text, size - 1);
  std::memcpy(place, text, length);
  place[length] = '\0';
}

/// Returns the thread's place on the page; nullptr if there are too many threads.
Text* Mine() {
  static thread_local const std::size_t number = used.fetch_add(1);
  return number < kThreads ? &page->running[number] : nullptr;
}

/// For signal handlers: unlike in Mine(), reading it initialises nothing.
constinit thread_local Text* mine = nullptr;

/// The operators around the current one, outermost first: an operator may run a session itself.
std::vector<Text>& Outer() {
  static thread_local std::vector<Text> outer;
  return outer;
}

void Begin(const char* who) {
  mine = Mine();
  if (mine == nullptr) return;
  Outer().push_back(*mine);
  Copy(who, mine->data(), mine->size());
}

void End() {
  if (mine == nullptr || Outer().empty()) return;
  *mine = Outer().back();
  Outer().pop_back();
}

constexpr OpgraftWatcher kWatcher = {&Begin, &End};

void Say(const char* text) {
  // A failure cannot be reported anywhere.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

struct Fatal {
  int number;
  const char* name;
};

constexpr Fatal kFatal[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
                            {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGSYS, "SIGSYS"},
                            {SIGTRAP, "SIGTRAP"}};

/// Reports what ended the process and where. The handler has been reset by now, so that the signal,
/// raised again, ends the process as it would have without us.
void OnSignal(int number) {
  Say("opgraft-run: the process was ended by ");
  for (const Fatal& fatal : kFatal) {
    if (fatal.number == number) Say(fatal.name);
  }
  if (mine != nullptr && (*mine)[0] != '\0') {
    Say(" inside ");
    Say(mine->data());
  } else {
    Say(" outside of the operators that Opgraft runs: in ONNX Runtime, in a library or in a "
        "module that is imported");
  }
  Say("\n");
  Copy("told", page->state.data(), page->state.size());
  (void)raise(number);
}

/// Installs the handlers on a stack of their own, because a stack that has overflowed has no room
/// for a handler.
void CatchSignals() {
  static std::array<char, 65536> stack;
  stack_t other = {};
  other.ss_sp = stack.data();
  other.ss_size = stack.size();
  (void)sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND | SA_NODEFER);
  for (const Fatal& fatal : kFatal) (void)sigaction(fatal.number, &action, nullptr);
}

}  // namespace

Status OpenRecord(const std::string& path) {
  if (!path.empty()) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void* mapped = MAP_FAILED;
    if (file >= 0 && ftruncate(file, sizeof(Page)) == 0) {
      mapped = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    const int error = errno;
    if (file >= 0) (void)close(file);
    if (mapped == MAP_FAILED) {
      return Status::Error("--record " + path + ": " + std::strerror(error));
    }
    page = static_cast<Page*>(mapped);
    *page = Page();
  }
  Copy("running", page->state.data(), page->state.size());
  CatchSignals();
  opgraft_watch(&kWatcher);
  return Status();
}

void CloseRecord() { Copy("finished", page->state.data(), page->state.size()); }

}  // namespace opgraft::run
