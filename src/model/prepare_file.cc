// Mapping the file, and telling where its data lies.
#include "model/prepare_file.h"

#include <exception>
#include <filesystem>
#include <system_error>

namespace opgraft::model {
namespace {

/// ONNX Runtime is told of the folder by an entry of its options, which it limits.
constexpr std::size_t kLongestFolder = 1000;

Status PrepareMapped(const std::string& path, std::string_view runtime_version,
                     OperatorSource& operators, bool may_refer, PreparedFile* prepared) {
  platform::MappedFile file;
  if (Status status = file.Open(path); !status.ok()) return Status::Model(status.message());
  std::error_code error;
  const std::filesystem::path apparent = std::filesystem::absolute(path, error);
  // The runtime refuses data outside the model's folder, and so a link that leads there.
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  const std::string real_folder = real.parent_path().string();
  may_refer = may_refer && !error && file.identity() != platform::FileIdentity() &&
              real_folder.size() <= kLongestFolder;
  const std::string file_name = may_refer ? real.filename().string() : "";
  const std::string origin = "'" + path + "'";
  prepared->path = path;
  prepared->identity = file.identity();
  prepared->folder = apparent.parent_path().string();
  Status status =
      Prepare(file.contents(), origin, runtime_version, operators, &prepared->model, file_name);
  if (!status.ok() || !prepared->model.refers_to_original) return status;
  const std::filesystem::path folder = std::filesystem::canonical(apparent.parent_path(), error);
  if (folder == real.parent_path()) return Status();
  if (prepared->model.has_external_data) {
    // It lies where the link is, and the file itself elsewhere: there is but one folder to tell.
    return Prepare(file.contents(), origin, runtime_version, operators, &prepared->model);
  }
  prepared->folder = real_folder;
  return Status();
}

}  // namespace

Status PreparedFile::CheckUnchanged() const {
  if (!model.refers_to_original || platform::IdentityOf(path) == identity) return Status();
  return Status::Model("'" + path +
                       "' has been changed or replaced while it was opened, or since: its weights "
                       "are not those of the model that was prepared. Open it again");
}

Status PrepareFile(const std::string& path, std::string_view runtime_version,
                   OperatorSource& operators, bool may_refer, PreparedFile* prepared) {
  try {
    return PrepareMapped(path, runtime_version, operators, may_refer, prepared);
  } catch (const std::exception& exception) {  // of paths, and of the memory for them
    *prepared = PreparedFile();
    return Status::Error("'" + path + "' cannot be prepared: " + exception.what());
  }
}

}  // namespace opgraft::model
