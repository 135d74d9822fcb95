// Implements the services on Linux.
#include "core/platform.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h may lack it

namespace opgraft::platform {

void* FindSymbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }

void* FindSymbol(void* library, const char* name) { return dlsym(library, name); }

std::string PathOf(const void* address) {
  Dl_info found = {};
  return dladdr(address, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
}

std::string PathOfLoaded(const char* name) {
  void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "";
  link_map* map = nullptr;
  const bool is_found =
      dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map != nullptr;
  std::string path = is_found ? map->l_name : "";
  dlclose(library);
  return path;
}

Status LoadLibrary(const std::string& path, bool is_global, void** library) {
  *library =
      dlopen(path.c_str(), RTLD_NOW | RTLD_NODELETE | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (*library != nullptr) return Status();
  const char* const error = dlerror();
  std::string reason = error != nullptr ? error : "";
  // The system's message often begins with the path, which would then appear twice.
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return Status::Unavailable("cannot load " + path + ": " + reason);
}

Status RunProgram(const std::vector<std::string>& arguments, ProgramResult* result) {
  *result = ProgramResult();
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status::Unavailable(std::string("cannot create a pipe: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error == 0) {
    char buffer[4096];
    ssize_t count = 0;
    while ((count = read(ends[0], buffer, sizeof(buffer))) > 0 || (count < 0 && errno == EINTR)) {
      if (count > 0) result->output.append(buffer, static_cast<std::size_t>(count));
    }
  }
  close(ends[0]);
  if (error == 0) {
    int status = 0;
    pid_t waited = 0;
    while ((waited = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    // A program that ignores SIGCHLD cannot learn how its children ended.
    if (waited < 0) return Status();
    result->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return Status();
  }
  return Status::Unavailable("cannot run '" + arguments[0] + "': " + std::strerror(error));
}

void OnFork(void (*before)(), void (*after_in_parent)(), void (*after_in_child)()) {
  pthread_atfork(before, after_in_parent, after_in_child);
}

KeptInterruptHandler::KeptInterruptHandler() : kept_() { sigaction(SIGINT, nullptr, &kept_); }

KeptInterruptHandler::~KeptInterruptHandler() { sigaction(SIGINT, &kept_, nullptr); }

namespace {

FileIdentity IdentityFrom(const struct stat& found) {
  return {found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
          found.st_mtim.tv_sec * std::int64_t{1'000'000'000} + found.st_mtim.tv_nsec};
}

}  // namespace

FileIdentity IdentityOf(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 ? IdentityFrom(found) : FileIdentity();
}

Status CheckIsFile(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return Status::Error("cannot read '" + path + "': " + why);
  };
  if (path.find('\0') != path.npos) return refuse("the path contains a zero byte");
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return refuse(std::strerror(errno));
  const char* kind = nullptr;
  switch (found.st_mode & S_IFMT) {
    case S_IFREG: return Status();
    case S_IFDIR: return refuse(std::strerror(EISDIR));
    case S_IFIFO: kind = "a FIFO"; break;
    case S_IFSOCK: kind = "a socket"; break;
    default: kind = "a device"; break;
  }
  return refuse(std::string("it is ") + kind + ", which may never end. Fix: copy it to a file");
}

Status MappedFile::Open(const std::string& path) {
  if (Status status = CheckIsFile(path); !status.ok()) return status;
  // O_NONBLOCK: do not wait for a writer if the file has become a FIFO since the check.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat found = {};
  if (file >= 0 && fstat(file, &found) == 0 && !S_ISREG(found.st_mode)) {
    close(file);
    return Status::Error("cannot read '" + path + "': it was replaced while it was being opened");
  }
  if (file >= 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0) {
    const auto size = static_cast<std::size_t>(found.st_size);
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped != MAP_FAILED) {
      close(file);
      mapped_ = mapped;
      contents_ = {static_cast<const char*>(mapped), size};
      identity_ = IdentityFrom(found);
      return Status();
    }
  }
  if (file >= 0) close(file);
  Status status = ReadFile(path, &read_);
  contents_ = read_;
  return status;
}

MappedFile::~MappedFile() {
  if (mapped_ != nullptr) munmap(mapped_, contents_.size());
}

Status ReadFile(const std::string& path, std::string* contents) {
  contents->clear();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream read;
  const bool is_empty = file.is_open() && file.peek() == std::ifstream::traits_type::eof();
  if (is_empty && !file.bad()) return Status();
  if (file.is_open() && read << file.rdbuf()) {
    *contents = std::move(read).str();
    return Status();
  }
  return Status::Error("cannot read '" + path + "': " + std::strerror(errno));
}

}  // namespace opgraft::platform
