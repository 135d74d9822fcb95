// The services of the operating system that Opgraft uses. All that depends on the platform is here.
#pragma once

#include <cxxabi.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"

namespace opgraft::platform {

/// A function of any library that this process has loaded for all to see, or nullptr.
void* FindSymbol(const char* name);

/// A function of `library`, or nullptr.
void* FindSymbol(void* library, const char* name);

/// Loads a library for good; where `is_global`, those loaded later find its functions.
/// An UnavailableError has the loader's own words.
Status LoadLibrary(const std::string& path, bool is_global, void** library);

/// The path of a library that this process has loaded already, by its name such as "libm.so.6"; ""
/// where it has not.
std::string PathOfLoaded(const char* name);

/// The path of the library, or the program, that `address` lies in; "" where nobody knows.
std::string PathOf(const void* address);

/// What became of a program that was run to its end.
struct ProgramResult {
  int exit_status = 0;  ///< 0 also where the host ignores SIGCHLD and so cannot know
  std::string output;   ///< both of its streams
};

/// Runs `arguments`, the first of which is looked for on the PATH.
/// An UnavailableError where it cannot be started.
Status RunProgram(const std::vector<std::string>& arguments, ProgramResult* result);

/// What unwinds the stack of a thread that ends itself. Not to be stopped: a handler throws it on,
/// or never returns.
using ThreadExit = abi::__forced_unwind;

/// Has `before` called before every fork of this process, in the thread that forks, and the other
/// two after it, in the parent and in the child. Not for programs that are spawned.
void OnFork(void (*before)(), void (*after_in_parent)(), void (*after_in_child)());

/// Remembers what the program does on Ctrl-C, and sees to it again when destroyed.
class KeptInterruptHandler {
 public:
  KeptInterruptHandler();
  KeptInterruptHandler(const KeptInterruptHandler&) = delete;
  KeptInterruptHandler& operator=(const KeptInterruptHandler&) = delete;
  ~KeptInterruptHandler();

 private:
  struct sigaction kept_;
};

/// Tells a file from any that takes its place, and from itself with other contents.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  std::uint64_t size = 0;
  std::int64_t changed = 0;  ///< in nanoseconds

  bool operator==(const FileIdentity&) const = default;
};

/// All zeros for a file that is not there.
FileIdentity IdentityOf(const std::string& path);

/// An error where there is no file at the path, or what is no file: reading a FIFO or a device may
/// never end.
Status CheckIsFile(const std::string& path);

/// A file's contents without reading them: the system fetches what is looked at. What cannot be
/// mapped, such as a file of /proc, is read.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// To be called once. Takes what CheckIsFile takes.
  Status Open(const std::string& path);

  /// Valid as long as this object is; nobody may cut the file short in the meantime.
  std::string_view contents() const { return contents_; }
  const FileIdentity& identity() const { return identity_; }

 private:
  std::string_view contents_;
  FileIdentity identity_;
  void* mapped_ = nullptr;
  std::string read_;  // where it could not be mapped
};

/// The whole of a file.
Status ReadFile(const std::string& path, std::string* contents);

}  // namespace opgraft::platform
