// Takes from a worker process the rights that an operator does not need: Landlock and seccomp.
#pragma once

extern "C" {

/// To be called before the process has other threads. `writable` is a list of paths, separated by
/// ':', below which files may be written. Returns nullptr, or why it is not possible here; the text
/// is never freed.
__attribute__((visibility("default"))) const char* opgraft_confine(const char* writable);
}
