// Looks for files and runs a python command; does not need a Python in this process.
#include "runtime/installed_torch.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "bridge/interpreter.h"
#include "core/platform.h"

namespace opgraft::aten {
namespace {

constexpr char kInPackage[] = "lib/libtorch_cpu.so";

/// Nothing must be imported from the current folder, which `-c` puts first on the path.
constexpr char kAskPython[] =
    "import sys\n"
    "if sys.path[0] == '': del sys.path[0]\n"
    "import importlib.util\n"
    "found = importlib.util.find_spec('torch')\n"
    "print(next(iter(found.submodule_search_locations or []), '') if found else '')\n";

std::mutex told_mutex;
std::string& Told() {
  static auto* const told = new std::string;
  return *told;
}

bool IsFile(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

}  // namespace

Status FindTorchWithoutAsking(std::string* path) {
  {
    const std::lock_guard lock(told_mutex);
    *path = Told();
  }
  if (!path->empty()) return Status();
  static const char anchor = 0;
  const std::filesystem::path library = platform::PathOf(&anchor);  // opgraft/lib/libopgraft.so
  const std::filesystem::path beside =
      library.parent_path().parent_path().parent_path() / "torch" / kInPackage;
  if (IsFile(beside)) {
    *path = beside;
    return Status();
  }
  return Status::Unavailable("there is no package torch beside Opgraft");
}

Status FindInstalledTorch(std::string* path) {
  if (FindTorchWithoutAsking(path).ok()) return Status();
  const char* const chosen = std::getenv("OPGRAFT_PYTHON");
  const bool is_chosen = chosen != nullptr && *chosen != '\0';
  if (!is_chosen && pyop::IsPythonRunning()) {
    return Status::Unavailable("this Python has no package torch");
  }
  const std::string command = is_chosen ? chosen : "python3";
  platform::ProgramResult answer;
  Status status = platform::RunProgram({command, "-c", kAskPython}, &answer);
  if (!status.ok()) return Status::Unavailable("libtorch was not found: " + status.message());
  std::string& output = answer.output;
  while (!output.empty() && output.back() == '\n') output.pop_back();
  // The last line counts: the environment may print other things before it.
  const std::string folder = output.substr(output.rfind('\n') + 1);
  const std::filesystem::path found = std::filesystem::path(folder) / kInPackage;
  if (folder.empty() || !IsFile(found)) {
    return Status::Unavailable("'" + command +
                               "' has no package torch (OPGRAFT_PYTHON may name "
                               "another python command)");
  }
  *path = found;
  return Status();
}

void TellInstalledTorch(const std::string& path) {
  const std::lock_guard lock(told_mutex);
  if (!path.empty()) Told() = path;
}

}  // namespace opgraft::aten
