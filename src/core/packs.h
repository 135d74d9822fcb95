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

/// Thread-safe. A pack stays loaded until the process ends.
class Packs {
 public:
  /// Returns who else declares an operator, such as "the Python module mymodule", or "".
  using OtherOwner = std::function<std::string(std::string_view full_name)>;
  using Schemas = std::vector<std::shared_ptr<const Schema>>;

  static Packs& OfThisProcess();

  /// Loads the library at `path`; loading it again does nothing. Returns an UnavailableError if it
  /// cannot be loaded, is not a pack or is too new, and an Error if it is invalid or an operator is
  /// already declared elsewhere.
  Status Load(const std::string& path, const OtherOwner& other_owner);

  /// Adds the operators of a pack that is part of this program.
  Status Add(const OpgraftPack& pack, const std::string& path, const OtherOwner& other_owner);

  /// Finds the newest version of an operator that is not above `version` (0: the newest of all).
  /// `full_name` may also be the name that nodes of prepared models use. Leaves `schema` unchanged
  /// if no pack has the operator. Returns a ModelError that begins with `who` if all versions are
  /// newer.
  Status Find(std::string_view who, std::string_view full_name, std::int64_t version,
              std::shared_ptr<const Schema>* schema) const;

  /// Returns the library that has an operator; "" if none has it.
  std::string OwnerOf(std::string_view full_name) const;

  /// Returns all operators in the order in which they were loaded.
  Schemas operators() const;
  /// Returns the operators of the library at `path`.
  Schemas OperatorsOf(const std::string& path) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, platform::FileIdentity> loaded_;   // libraries by their real paths
  std::map<std::string, Schemas, std::less<>> operators_;  // by full name, oldest version first
  Schemas in_order_;
};

/// Returns the path by which Packs identifies a library.
std::string PackPath(const std::string& path);

}  // namespace opgraft
