// The packs that this process has loaded, and the operators in them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/platform.h"
#include "core/schema.h"
#include "opgraft/c_api.h"
#include "opgraft/status.h"

namespace opgraft {

/// Thread-safe. A pack stays loaded for good.
class Packs {
 public:
  /// Says who else has an operator, such as "the Python module mymodule"; "" for nobody.
  using OtherOwner = std::function<std::string(std::string_view full_name)>;
  using Schemas = std::vector<std::shared_ptr<const Schema>>;

  static Packs& OfThisProcess();

  /// Loads the library at `path`; doing so again changes nothing. An UnavailableError where it
  /// cannot be loaded, is none of ours or too new; an Error where something is wrong with it or an
  /// operator is someone else's already.
  Status Load(const std::string& path, const OtherOwner& other_owner);

  /// Takes the operators of a pack that is part of this program.
  Status Add(const OpgraftPack& pack, const std::string& path, const OtherOwner& other_owner);

  /// The operator at the newest version that is not above `version` (0: the newest there is), or
  /// the one that nodes of prepared models call so. Left alone where no pack has it; a ModelError
  /// that begins with `who` where all versions are newer.
  Status Find(std::string_view who, std::string_view full_name, std::int64_t version,
              std::shared_ptr<const Schema>* schema) const;

  /// The library that has an operator; "" where none has.
  std::string OwnerOf(std::string_view full_name) const;

  /// All, in the order in which they were loaded.
  Schemas operators() const;
  /// Those of the library at `path`.
  Schemas OperatorsOf(const std::string& path) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, platform::FileIdentity> loaded_;   // libraries, by their real paths
  std::map<std::string, Schemas, std::less<>> operators_;  // by full name, the oldest version first
  Schemas in_order_;
};

/// The path that Packs know a library by.
std::string PackPath(const std::string& path);

}  // namespace opgraft
