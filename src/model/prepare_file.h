// Preparing a model that lies in a file, which is not read as a whole.
#pragma once

#include <string>
#include <string_view>

#include "core/platform.h"
#include "model/prepare.h"
#include "opgraft/status.h"

namespace opgraft::model {

struct PreparedFile {
  PreparedModel model;
  /// Where the runtime finds the external data of `model.bytes`.
  std::string folder;
  /// The file as it was prepared: references into it are right for no other.
  std::string path;
  platform::FileIdentity identity;

  /// A ModelError where the file is another by now than the one that `model.bytes` refers to.
  Status CheckUnchanged() const;
};

/// Prepares the model at `path`. With `may_refer`, large weights of a model that must be changed
/// are references into its file, where this runtime can follow them; else they are copied.
Status PrepareFile(const std::string& path, std::string_view runtime_version,
                   OperatorSource& operators, bool may_refer, PreparedFile* prepared);

}  // namespace opgraft::model
