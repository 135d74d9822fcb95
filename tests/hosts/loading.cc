// A C++ program that does what its arguments say, in order, and prints the results:
//     loading libonnxruntime.so [load=PACK | import=MODULE | prefer=NAME | run=MODEL]...
// A model has one float vector x as input and y as output; x is 1, 2.
#include <dlfcn.h>
#include <opgraft/host.h>
#include <opgraft/onnxruntime.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace ort = opgraft::ort;

namespace {

void Run(const OrtApiBase* base, const OrtEnv* environment, const std::string& model,
         const opgraft::Allowed& allowed) {
  const OrtApi* const api = ort::GetApi(base, ort::kApiVersion);
  OrtSessionOptions* options = nullptr;
  OrtSession* session = nullptr;
  ort::CreateSessionOptions(api, &options);
  const opgraft::Status status =
      opgraft::CreateSession(base, environment, model, options, allowed, &session);
  ort::ReleaseSessionOptions(api, options);
  if (!status.ok()) {
    std::printf("%s\n", status.ToString().c_str());
    return;
  }
  OrtMemoryInfo* memory = nullptr;
  OrtValue* input = nullptr;
  OrtValue* result = nullptr;
  float data[] = {1, 2};
  const std::int64_t shape[] = {2};
  const char* const input_name = "x";
  const char* const output_name = "y";
  ort::CreateCpuMemoryInfo(api, /*arena*/ 1, /*default*/ 0, &memory);
  ort::CreateTensorWithDataAsOrtValue(api, memory, data, sizeof(data), shape, 1, /*float*/ 1,
                                      &input);
  OrtStatus* const error =
      ort::Run(api, session, nullptr, &input_name, &input, 1, &output_name, 1, &result);
  if (error != nullptr) {
    const char* const text = ort::GetErrorMessage(api, error);
    const opgraft::Status raised = opgraft::Status::FindIn(text);
    std::printf("run: %s\n", raised.ok() ? text : raised.ToString().c_str());
    ort::ReleaseStatus(api, error);
  } else {
    void* values = nullptr;
    ort::GetTensorMutableData(api, result, &values);
    const auto* const y = static_cast<const float*>(values);
    std::printf("%g %g\n", y[0], y[1]);
    ort::ReleaseValue(api, result);
  }
  ort::ReleaseValue(api, input);
  ort::ReleaseSession(api, session);
}

bool HasPython() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libpython") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 1;
  auto* const get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  const OrtApiBase* const base = get_base();
  OrtEnv* environment = nullptr;
  ort::CreateEnv(ort::GetApi(base, ort::kApiVersion), /*fatal*/ 4, "loading", &environment);
  opgraft::Allowed allowed;
  for (int i = 2; i < count; ++i) {
    const std::string argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const std::string what = argument.substr(0, equals);
    const std::string value = argument.substr(equals + 1);
    if (what == "load") {
      const opgraft::Status status = opgraft::Load(value);
      std::printf("%s\n", status.ok() ? "loaded" : status.ToString().c_str());
    } else if (what == "import") {
      allowed.imports.push_back(value);
    } else if (what == "prefer") {
      allowed.prefer.push_back(value);
    } else {
      Run(base, environment, value, allowed);
    }
  }
  std::printf("%s\n", HasPython() ? "with Python" : "without Python");
  return 0;
}
