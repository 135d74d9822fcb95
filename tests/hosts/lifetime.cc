// A program without Python that makes, runs, forks and releases sessions like real hosts.
//     lifetime libonnxruntime.so model.onnx module what
#include <dlfcn.h>
#include <opgraft/host.h>
#include <opgraft/onnxruntime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace ort = opgraft::ort;

namespace {

const OrtApiBase* base;
const OrtApi* api;
OrtEnv* environment;
OrtSessionOptions* options;
OrtMemoryInfo* memory;
std::string model;
std::string module;

OrtSession* Open() {
  OrtSession* session = nullptr;
  const opgraft::Status status =
      opgraft::CreateSession(base, environment, model, options, {{module}}, &session);
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  return session;
}

/// The model computes y = x + x. Returns whether it did, or, if `must_fail`, whether it failed.
bool Run(OrtSession* session, float value = 1, bool must_fail = false,
         const OrtRunOptions* how = nullptr) {
  float data[4] = {value, 2, 3, 4};
  const std::int64_t shape[] = {4};
  const char* input_name = "x";
  const char* output_name = "y";
  OrtValue* input = nullptr;
  OrtValue* output = nullptr;
  ort::CreateTensorWithDataAsOrtValue(api, memory, data, sizeof(data), shape, 1, 1, &input);
  OrtStatus* error = ort::Run(api, session, how, &input_name, &input, 1, &output_name, 1, &output);
  ort::ReleaseValue(api, input);
  if (error != nullptr) {
    if (!must_fail) std::printf("%s\n", ort::GetErrorMessage(api, error));
    ort::ReleaseStatus(api, error);
    return must_fail;
  }
  void* result = nullptr;
  ort::GetTensorMutableData(api, output, &result);
  const bool is_right = static_cast<float*>(result)[0] == value + value;
  ort::ReleaseValue(api, output);
  return is_right && !must_fail;
}

void RunForever(OrtSession* session) {
  while (true) Run(session);
}

void Sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

/// Returns the number of memory pages that this process uses.
long Pages() {
  long whole = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident;
}

/// Each session is made, run and released by three different threads.
int OtherThreads() {
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 10; ++j) {
        OrtSession* session = nullptr;
        std::thread([&] { session = Open(); }).join();
        std::thread([&] { right += Run(session); }).join();
        std::thread([&] { ort::ReleaseSession(api, session); }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d right\n", right.load());
  return 0;
}

int RunOnce() {
  OrtSession* session = Open();
  std::printf("%d right\n", session != nullptr && Run(session) ? 1 : 0);
  return 0;
}

/// Returns the exit status of a child that runs `session`, if given, and a new session: 7 if it
/// works.
int Child(OrtSession* session) {
  const pid_t child = fork();
  if (child == 0) {
    const bool same = session == nullptr || Run(session);
    OrtSession* own = Open();
    const bool fresh = own != nullptr && Run(own);
    std::thread thread([&] { Run(own); });
    thread.join();
    std::_Exit(same && fresh ? 7 : 1);  // exit() would wait for a thread of ONNX Runtime 1.31
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Children run the parent's session and a new one: forked by a thread that has run Python, by one
/// that never has, and while another thread is inside an operator. If forked while other threads
/// enter and leave Python, they run only a new one, since locks of a session that other threads
/// were running may never be released.
int Fork() {
  OrtSession* session = Open();
  Run(session);
  std::printf("idle %d\n", Child(session));
  std::thread([&] { std::printf("thread %d\n", Child(session)); }).join();
  std::thread(Run, session, 0, false, nullptr).detach();
  Sleep(50);
  std::printf("inside %d\n", Child(session));
  for (int i = 0; i < 3; ++i) std::thread(RunForever, session).detach();
  for (int i = 0; i < 20; ++i) std::printf("busy %d\n", Child(nullptr));
  std::printf("parent %d\n", Run(session));
  std::fflush(stdout);
  std::_Exit(0);
}

/// Forks by several threads at once, which Python has never seen. Python is reinitialised in each
/// child.
int ForkTogether() {
  Run(Open());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) {
        const pid_t child = fork();
        if (child == 0) std::_Exit(7);
        int status = 0;
        waitpid(child, &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == 7;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d right\n", right.load());
  return 0;
}

/// Forks before Python is started: a child starts its own.
int ForkFirst() {
  const pid_t child = fork();
  OrtSession* session = Open();
  const bool is_right = session != nullptr && Run(session);
  if (child == 0) std::_Exit(is_right ? 7 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d parent %d\n", WEXITSTATUS(status), is_right);
  return 0;
}

/// A thread terminates a run while its first operator, which has created the file "inside", waits
/// for the file "go".
int Terminate() {
  constexpr ort::ApiCall<46, OrtRunOptions*> RunOptionsSetTerminate{};
  OrtSession* session = Open();
  OrtRunOptions* how = nullptr;
  ort::CreateRunOptions(api, &how);
  std::thread other([&] {
    while (!std::ifstream("inside")) Sleep(1);
    RunOptionsSetTerminate(api, how);
    std::ofstream("go") << "on";
  });
  Run(session, 1, false, how);
  other.join();
  ort::ReleaseRunOptions(api, how);
  return 0;
}

int ExitLive() {
  Run(Open());
  std::printf("done\n");
  return 3;
}

int ExitHot() {
  OrtSession* session = Open();
  for (int i = 0; i < 4; ++i) std::thread(RunForever, session).detach();
  Sleep(100);
  std::printf("done\n");
  return 3;
}

int Memory() {
  OrtSession* session = Open();
  const auto run = [&](int runs) {
    for (int i = 0; i < runs; ++i) {
      if (!Run(session, i % 10 == 9 ? -1 : 1, i % 10 == 9)) std::printf("wrong\n");
    }
  };
  run(5000);
  const long before = Pages();
  run(100000);
  std::printf("%ld kB\n", (Pages() - before) * (sysconf(_SC_PAGESIZE) / 1024));
  return 0;
}

int Sessions() {
  for (int i = 0; i < 20; ++i) ort::ReleaseSession(api, Open());
  const long before = Pages();
  for (int i = 0; i < 200; ++i) {
    OrtSession* session = Open();
    Run(session);
    ort::ReleaseSession(api, session);
  }
  std::printf("%ld kB\n", (Pages() - before) * (sysconf(_SC_PAGESIZE) / 1024));
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;
  base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"))();
  api = ort::GetApi(base, ort::kApiVersion);
  model = arguments[2];
  module = arguments[3];
  ort::CreateEnv(api, /*only fatal errors*/ 4, "lifetime", &environment);
  ort::CreateSessionOptions(api, &options);
  ort::CreateCpuMemoryInfo(api, 1, 0, &memory);
  const std::map<std::string, std::function<int()>> programs = {{"other threads", OtherThreads},
                                                                {"once", RunOnce},
                                                                {"terminate", Terminate},
                                                                {"fork", Fork},
                                                                {"fork first", ForkFirst},
                                                                {"fork together", ForkTogether},
                                                                {"exit live", ExitLive},
                                                                {"exit hot", ExitHot},
                                                                {"memory", Memory},
                                                                {"sessions", Sessions}};
  return programs.at(arguments[4])();
}
