// How operators of the tests run on the fake driver: plain C++, on a stream, on the device's
// memory.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <functional>

namespace fake {

template <class Function>
Function* Find(const char* name) {
  static void* const driver = dlopen(std::getenv("OPGRAFT_CUDA_DRIVER"), RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(driver, name));
}

/// What a kernel sees of memory that faults when the host touches it.
template <class T>
T* Alias(T* memory) {
  return static_cast<T*>(Find<void*(const void*)>("fake_alias")(memory));
}

inline void Launch(void* stream, std::function<void()> kernel) {
  auto* const kept = new std::function<void()>(std::move(kernel));
  const auto run = [](void* argument) {
    auto* const kernel_to_run = static_cast<std::function<void()>*>(argument);
    (*kernel_to_run)();
    delete kernel_to_run;
  };
  Find<void(void*, void (*)(void*), void*)>("fake_launch")(stream, run, kept);
}

}  // namespace fake
