// Searches the folder beside the library.
#include "core/shipped_packs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/platform.h"

namespace opgraft {
namespace {

/// Returns the package's folder opgraft/packs. This code is in opgraft/lib, opgraft/bin or opgraft.
std::filesystem::path FolderOfPacks() {
  static const char anchor = 0;
  std::error_code error;
  const std::filesystem::path own = std::filesystem::path(platform::PathOf(&anchor)).parent_path();
  const std::filesystem::path beside = own / "packs";
  return std::filesystem::is_directory(beside, error) ? beside : own.parent_path() / "packs";
}

const Packs* ReadShipped() {
  std::set<std::string> libraries;  // in the same order everywhere
  std::error_code error;
  for (std::filesystem::directory_iterator entry(FolderOfPacks(), error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".so") libraries.insert(entry->path().string());
  }
  auto* const packs = new Packs;  // schemas may outlive every static object
  for (const std::string& library : libraries) {
    // A pack that cannot be loaded is skipped; loading it by its path reports why.
    static_cast<void>(packs->Load(library, [](std::string_view) { return std::string(); }));
  }
  return packs;
}

bool HasSomeOf(const Packs::Schemas& schemas, std::string_view entry) {
  return std::any_of(schemas.begin(), schemas.end(), [&](const auto& schema) {
    return schema->domain == entry || schema->FullName() == entry;
  });
}

}  // namespace

const Packs& ShippedPacks() {
  static const Packs* const packs = ReadShipped();
  return *packs;
}

std::vector<std::string> ShippedPacksWith(std::string_view entries, const Packs& loaded) {
  std::vector<std::string> found;
  while (!entries.empty()) {
    const std::size_t comma = std::min(entries.find(','), entries.size());
    const std::string_view entry = entries.substr(0, comma);
    entries.remove_prefix(std::min(comma + 1, entries.size()));
    if (entry.empty() || !loaded.OwnerOf(entry).empty()) continue;
    for (const auto& schema : ShippedPacks().operators()) {
      const std::string& pack = schema->native->pack;
      if (HasSomeOf({schema}, entry) && std::find(found.begin(), found.end(), pack) == found.end())
        found.push_back(pack);
    }
  }
  return found;
}

}  // namespace opgraft
