// A C++ program that runs a model with Python operators: it computes F from A to E, all of shape
// 2 x 3.
//     cpp_host libonnxruntime.so model.onnx mymodule
#include <dlfcn.h>
#include <opgraft/host.h>
#include <opgraft/onnxruntime.h>

#include <cstdio>

namespace ort = opgraft::ort;  // with ONNX Runtime's own header, write api->CreateEnv(...)

int main(int count, char** arguments) {
  if (count != 4) return std::printf("usage: cpp_host LIBONNXRUNTIME MODEL MODULE\n"), 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;
  auto* get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  const OrtApiBase* base = get_base != nullptr ? get_base() : nullptr;
  const OrtApi* api = base != nullptr ? ort::GetApi(base, ort::kApiVersion) : nullptr;
  if (api == nullptr) return std::printf("%s is not a recent ONNX Runtime\n", arguments[1]), 1;

  OrtEnv* environment = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtMemoryInfo* memory = nullptr;
  ort::CreateEnv(api, /*warnings*/ 2, "cpp_host", &environment);
  ort::CreateSessionOptions(api, &options);
  ort::CreateCpuMemoryInfo(api, /*arena*/ 1, /*default*/ 0, &memory);

  OrtSession* session = nullptr;
  const opgraft::Allowed allowed = {{arguments[3]}};  // the model may run only this module
  const opgraft::Status status =
      opgraft::CreateSession(base, environment, arguments[2], options, allowed, &session);
  if (!status.ok()) return std::printf("%s\n", status.ToString().c_str()), 1;

  const char* names[] = {"A", "B", "C", "D", "E"};
  const char* result_name = "F";
  const std::int64_t shape[] = {2, 3};
  float data[5][6];
  OrtValue* inputs[5] = {};
  OrtValue* result = nullptr;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 6; ++j) data[i][j] = static_cast<float>(i + j);
    ort::CreateTensorWithDataAsOrtValue(api, memory, data[i], sizeof(data[i]), shape, 2,
                                        /*float*/ 1, &inputs[i]);
  }
  OrtStatus* error = ort::Run(api, session, nullptr, names, inputs, 5, &result_name, 1, &result);
  if (error != nullptr) {  // an error of the runtime, or one that a Python operator raised
    const char* text = ort::GetErrorMessage(api, error);
    const opgraft::Status raised = opgraft::Status::FindIn(text);
    return std::printf("%s\n", raised.ok() ? text : raised.ToString().c_str()), 1;
  }

  void* values = nullptr;
  ort::GetTensorMutableData(api, result, &values);
  for (int j = 0; j < 6; ++j) std::printf("%g ", static_cast<float*>(values)[j]);
  std::printf("\n");
  return 0;
}
