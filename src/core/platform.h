// The services of the operating system; all code that depends on the platform is here.
#pragma once

#include <cxxabi.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::platform {

/// Returns a function with global visibility in this process, or nullptr.
void* FindSymbol(const char* name);

/// Returns a function of `library`, or nullptr.
void* FindSymbol(void* library, const char* name);

/// Loads a library until the process ends. If `is_global`, libraries loaded later find its
/// functions. An UnavailableError contains the loader's own message.
Status LoadLibrary(const std::string& path, bool is_global, void** library);

/// Returns the path of a library that this process has already loaded, found by a name such as
/// "libm.so.6"; "" if it is not loaded.
std::string PathOfLoaded(const char* name);

/// Returns the path of the library or program that contains `address`; "" if it is not known.
std::string PathOf(const void* address);

/// The result of a program that was run to its end.
struct ProgramResult {
  int exit_status = 0;  ///< also 0 if the host ignores SIGCHLD, which hides it
  std::string output;   ///< standard output and standard error
};

/// Runs a program with its arguments. The program, the first element, is looked up in PATH. Returns
/// an UnavailableError if it cannot be started.
Status RunProgram(const std::vector<std::string>& arguments, ProgramResult* result);

/// The exception that unwinds the stack of a thread that ends itself. It must not be swallowed: a
/// handler rethrows it or never returns.
using ThreadExit = abi::__forced_unwind;

/// Calls `before` before every fork of this process, in the forking thread, and the other two
/// functions after it, in the parent and in the child. Not called for programs that are spawned.
void OnFork(void (*before)(), void (*after_in_parent)(), void (*after_in_child)());

/// Saves the program's handler for Ctrl-C, and restores it when destroyed.
class KeptInterruptHandler {
 public:
  KeptInterruptHandler();
  KeptInterruptHandler(const KeptInterruptHandler&) = delete;
  KeptInterruptHandler& operator=(const KeptInterruptHandler&) = delete;
  ~KeptInterruptHandler();

 private:
  struct sigaction kept_;
};

/// Distinguishes a file from any other at the same path, and from itself with other contents.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  std::uint64_t size = 0;
  std::int64_t changed = 0;  ///< the time of modification in nanoseconds

  bool operator==(const FileIdentity&) const = default;
};

/// Returns all zeros for a file that does not exist.
FileIdentity IdentityOf(const std::string& path);

/// Returns an error if the path is not a regular file: reading a FIFO or a device may never end.
Status CheckIsFile(const std::string& path);

/// Maps a file into memory, so that the system reads only the parts that are used. A file that
/// cannot be mapped, such as one of /proc, is read.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Must be called at most once. Accepts the files that CheckIsFile accepts.
  Status Open(const std::string& path);

  /// Valid as long as this object. The file must not be truncated in the meantime.
  std::string_view contents() const { return contents_; }
  const FileIdentity& identity() const { return identity_; }

 private:
  std::string_view contents_;
  FileIdentity identity_;
  void* mapped_ = nullptr;
  std::string read_;  // the contents, if it could not be mapped
};

/// Reads a whole file.
Status ReadFile(const std::string& path, std::string* contents);

}  // namespace opgraft::platform
