// A program without Python that runs an operator in worker processes, and cancels it.
//     isolate libonnxruntime.so model.onnx module
#include <dlfcn.h>
#include <opgraft/host.h>
#include <opgraft/onnxruntime.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

namespace ort = opgraft::ort;

int main(int, char** arguments) {
  void* library = dlopen(arguments[1], RTLD_NOW);
  auto* get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  const OrtApiBase* base = get_base();
  const OrtApi* api = ort::GetApi(base, ort::kApiVersion);
  OrtEnv* environment = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtMemoryInfo* memory = nullptr;
  OrtSession* session = nullptr;
  ort::CreateEnv(api, /*fatal*/ 4, "isolate", &environment);
  ort::CreateSessionOptions(api, &options);
  ort::CreateCpuMemoryInfo(api, /*arena*/ 1, /*default*/ 0, &memory);

  opgraft::Status status = opgraft::Isolate(base, options, {.workers = 2, .environment = {"a,b"}});
  std::printf("%s\n", status.ToString().c_str());
  OrtSessionOptions* wrong = nullptr;
  ort::CreateSessionOptions(api, &wrong);
  status = opgraft::Register(base, wrong, {{"no module"}});
  std::printf("%s\n", status.ToString().c_str());
  status = opgraft::Isolate(base, options, {.workers = 0});
  std::printf("%s\n", status.ToString().c_str());
  status =
      opgraft::Isolate(base, options, {.workers = 2, .timeout = 60, .environment = {"A_VARIABLE"}});
  if (status.ok()) {
    status = opgraft::CreateSession(base, environment, arguments[2], options, {{arguments[3]}},
                                    &session);
  }
  if (!status.ok()) return std::printf("%s\n", status.ToString().c_str()), 1;

  // The operator hangs if its input is 0.
  const auto run = [&](float given) {
    const std::int64_t shape[] = {1};
    const char* input = "x";
    const char* output = "y";
    OrtValue* value = nullptr;
    OrtValue* result = nullptr;
    ort::CreateTensorWithDataAsOrtValue(api, memory, &given, sizeof(given), shape, 1, /*float*/ 1,
                                        &value);
    OrtStatus* error = ort::Run(api, session, nullptr, &input, &value, 1, &output, 1, &result);
    if (error != nullptr) {
      return opgraft::Status::FindIn(ort::GetErrorMessage(api, error)).ToString();
    }
    void* data = nullptr;
    ort::GetTensorMutableData(api, result, &data);
    return std::to_string(*static_cast<float*>(data));
  };
  std::printf("%s\n", run(2).c_str());
  std::string hung;
  std::atomic<bool> is_over = false;
  std::thread hangs([&] {
    hung = run(0);
    is_over = true;
  });
  std::printf("%s\n", run(3).c_str());
  while (!is_over) {
    opgraft::Cancel(session);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  hangs.join();
  std::printf("%s\n%s\n", hung.c_str(), run(4).c_str());
  return 0;
}
