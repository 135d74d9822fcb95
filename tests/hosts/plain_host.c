/* A host that only uses what ONNX Runtime's C API offers every language: it registers libopgraft.so
 * as a custom operator library and opens a prepared model. C11, without headers of other projects.
 *     plain_host libonnxruntime.so libopgraft.so prepared.onnx allow
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*Function)(void);

static Function* api;

/* Functions of OrtApi, by their slot, which is the same in every release. */
enum {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kCreateTensorWithDataAsOrtValue = 49,
  kGetTensorMutableData = 51,
  kCreateCpuMemoryInfo = 69,
  kReleaseEnv = 92,
  kReleaseSession = 95,
  kReleaseSessionOptions = 100,
  kAddSessionConfigEntry = 130,
  kRegisterCustomOpsLibrary_V2 = 228,
};

static int Failed(void* status) {
  if (status == NULL) return 0;
  const char* (*message)(void*) = (const char* (*)(void*))api[kGetErrorMessage];
  printf("%s\n", message(status));
  return 1;
}

int main(int count, char** arguments) {
  if (count != 5) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (library == NULL) return printf("%s\n", dlerror()), 2;
  struct ApiBase {
    void* (*GetApi)(uint32_t);
    const char* (*GetVersionString)(void);
  };
  const struct ApiBase* (*get_base)(void);
  *(void**)&get_base = dlsym(library, "OrtGetApiBase");
  api = get_base()->GetApi(18);

  void *environment, *options, *session, *memory, *input, *output = NULL;
  if (Failed(((void* (*)(int, const char*, void**))api[kCreateEnv])(4, "plain", &environment)) ||
      Failed(((void* (*)(void**))api[kCreateSessionOptions])(&options)) ||
      Failed(((void* (*)(void*, const char*, const char*))api[kAddSessionConfigEntry])(
          options, "opgraft.allow", arguments[4])) ||
      Failed(((void* (*)(void*, const char*))api[kRegisterCustomOpsLibrary_V2])(options,
                                                                               arguments[2])) ||
      Failed(((void* (*)(void*, const char*, void*, void**))api[kCreateSession])(
          environment, arguments[3], options, &session)))
    return 1;

  float data[3] = {1, 2, 3};
  const int64_t shape[1] = {3};
  const char* input_name = "x";
  const char* output_name = "y";
  float* result = NULL;
  if (Failed(((void* (*)(int, int, void**))api[kCreateCpuMemoryInfo])(1, 0, &memory)) ||
      Failed(((void* (*)(void*, void*, size_t, const int64_t*, size_t, int,
                         void**))api[kCreateTensorWithDataAsOrtValue])(
          memory, data, sizeof(data), shape, 1, 1, &input)) ||
      Failed(((void* (*)(void*, void*, const char**, void**, size_t, const char**, size_t,
                         void**))api[kRun])(session, NULL, &input_name, &input, 1, &output_name, 1,
                                            &output)) ||
      Failed(((void* (*)(void*, float**))api[kGetTensorMutableData])(output, &result)))
    return 1;
  printf("%g %g %g\n", result[0], result[1], result[2]);
  ((void (*)(void*))api[kReleaseSession])(session);
  ((void (*)(void*))api[kReleaseSessionOptions])(options);
  ((void (*)(void*))api[kReleaseEnv])(environment);
  return 0;
}
