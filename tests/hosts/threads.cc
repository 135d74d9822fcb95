// A program without Python: eight threads run one session, made by another thread, many times.
//     threads libonnxruntime.so model.onnx module runs
#include <dlfcn.h>
#include <opgraft/host.h>
#include <opgraft/onnxruntime.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace ort = opgraft::ort;

namespace {

const OrtApi* api;
OrtSession* session;
OrtMemoryInfo* memory;
std::atomic<int> wrong = 0;

/// The model computes y = x + x, and fails if x is negative.
void Work(int number, int runs) {
  for (int i = 0; i < runs; ++i) {
    const bool must_fail = i % 10 == 9;
    float data[4] = {must_fail ? -1.0f : 1.0f, static_cast<float>(number), static_cast<float>(i),
                     0};
    const std::int64_t shape[] = {4};
    const char* input_name = "x";
    const char* output_name = "y";
    OrtValue* input = nullptr;
    OrtValue* output = nullptr;
    ort::CreateTensorWithDataAsOrtValue(api, memory, data, sizeof(data), shape, 1, 1, &input);
    OrtStatus* error =
        ort::Run(api, session, nullptr, &input_name, &input, 1, &output_name, 1, &output);
    if (must_fail != (error != nullptr)) ++wrong;
    if (error != nullptr) {
      const std::string text = ort::GetErrorMessage(api, error);
      if (text.find("opgraft.PyOpError") == std::string::npos) ++wrong;
      ort::ReleaseStatus(api, error);
    } else {
      void* result = nullptr;
      ort::GetTensorMutableData(api, output, &result);
      for (int j = 0; j < 4; ++j) wrong += static_cast<float*>(result)[j] != data[j] + data[j];
      ort::ReleaseValue(api, output);
    }
    ort::ReleaseValue(api, input);
  }
}

}  // namespace

int main(int, char** arguments) {
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;
  const OrtApiBase* base =
      reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"))();
  api = ort::GetApi(base, ort::kApiVersion);
  OrtEnv* environment = nullptr;
  OrtSessionOptions* options = nullptr;
  ort::CreateEnv(api, /*only fatal errors*/ 4, "threads", &environment);
  ort::CreateSessionOptions(api, &options);
  ort::CreateCpuMemoryInfo(api, 1, 0, &memory);

  // Several sessions, so that several threads try to start Python, or arrive while it starts.
  std::vector<std::thread> openers;
  std::vector<OrtSession*> sessions(40);
  for (OrtSession*& opened : sessions) {
    openers.emplace_back([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * (&opened - sessions.data())));
      const opgraft::Status status = opgraft::CreateSession(base, environment, arguments[2],
                                                            options, {{arguments[3]}}, &opened);
      if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
      wrong += !status.ok();
    });
  }
  for (std::thread& opener : openers) opener.join();
  if (wrong != 0) return 1;
  session = sessions[0];

  const int runs = std::atoi(arguments[4]);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(Work, i, runs);
  for (std::thread& thread : threads) thread.join();
  for (OrtSession* opened : sessions) ort::ReleaseSession(api, opened);
  std::printf("%d wrong of %d\n", wrong.load(), 8 * runs);
  return wrong == 0 ? 0 : 1;
}
