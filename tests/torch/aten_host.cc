// A program without Python: opens a model with an ATen node, runs it in eight threads at once, and
// says what it has loaded.
//     aten_host libonnxruntime.so model.onnx runs [allowed]
#include <dlfcn.h>
#include <opgraft/host.h>
#include <opgraft/onnxruntime.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace ort = opgraft::ort;

namespace {

const OrtApi* api;
OrtSession* session;
OrtMemoryInfo* memory;
std::atomic<int> wrong = 0;

/// The model gives the inverse of a 3 x 3 matrix.
void Work(int number, int runs) {
  for (int i = 0; i < runs; ++i) {
    const auto factor = static_cast<float>(number + 1);
    float data[9] = {factor, 0, 0, 0, factor, 0, 0, 0, factor};
    const std::int64_t shape[] = {3, 3};
    const char* input_name = "x0";
    const char* output_name = "y0";
    OrtValue* input = nullptr;
    OrtValue* output = nullptr;
    ort::CreateTensorWithDataAsOrtValue(api, memory, data, sizeof(data), shape, 2, 1, &input);
    OrtStatus* error =
        ort::Run(api, session, nullptr, &input_name, &input, 1, &output_name, 1, &output);
    if (error != nullptr) {
      if (wrong++ == 0) std::printf("%s\n", ort::GetErrorMessage(api, error));
      ort::ReleaseStatus(api, error);
    } else {
      void* result = nullptr;
      ort::GetTensorMutableData(api, output, &result);
      for (int j = 0; j < 9; ++j) {
        const float expected = j % 4 == 0 ? 1 / factor : 0;
        wrong += std::abs(static_cast<float*>(result)[j] - expected) > 1e-6F;
      }
      ort::ReleaseValue(api, output);
    }
    ort::ReleaseValue(api, input);
  }
}

bool IsMapped(const char* library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(library) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;
  const OrtApiBase* base =
      reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"))();
  api = ort::GetApi(base, ort::kApiVersion);
  OrtEnv* environment = nullptr;
  OrtSessionOptions* options = nullptr;
  ort::CreateEnv(api, /*only fatal errors*/ 4, "aten_host", &environment);
  ort::CreateSessionOptions(api, &options);
  ort::CreateCpuMemoryInfo(api, 1, 0, &memory);
  opgraft::Allowed allowed;
  if (count > 4) allowed.modules = {arguments[4]};
  const opgraft::Status status =
      opgraft::CreateSession(base, environment, arguments[2], options, allowed, &session);
  if (!status.ok()) return std::printf("%s\n", status.ToString().c_str()), 2;
  const int runs = std::atoi(arguments[3]);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(Work, i, runs);
  for (std::thread& thread : threads) thread.join();
  ort::ReleaseSession(api, session);
  std::printf("%d wrong of %d; libtorch %d, libpython %d\n", wrong.load(), 8 * runs,
              IsMapped("libtorch_cpu.so"), IsMapped("libpython"));
  return wrong == 0 ? 0 : 1;
}
