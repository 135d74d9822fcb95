// Maps the file, and determines where its data are.
#include "model/session_plan.h"

#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/packs.h"
#include "model/explain.h"
#include "model/pack_operators.h"
#include "model/refusal.h"

namespace opgraft::model {
namespace {

/// ONNX Runtime gets the folder through an entry of its options, whose length is limited.
constexpr std::size_t kLongestFolder = 1000;

Status PlanFile(const PlanRequest& request, OperatorSource& operators, SessionPlan* plan) {
  platform::MappedFile file;
  if (Status status = file.Open(plan->path); !status.ok()) return Status::Model(status.message());
  std::error_code error;
  const std::filesystem::path apparent = std::filesystem::absolute(plan->path, error);
  // The runtime refuses data outside the model's folder, and so also a link that leads out of it.
  const std::filesystem::path real = std::filesystem::canonical(plan->path, error);
  const std::string real_folder = real.parent_path().string();
  const bool may_refer = request.may_refer && !error &&
                         file.identity() != platform::FileIdentity() &&
                         real_folder.size() <= kLongestFolder;
  const std::string file_name = may_refer ? real.filename().string() : "";
  plan->identity = file.identity();
  plan->folder = apparent.parent_path().string();
  const auto prepare = [&](std::string_view name) {
    return Prepare(file.contents(), plan->origin, request.runtime_version, operators, &plan->model,
                   name);
  };
  Status status = prepare(file_name);
  if (!status.ok() || !plan->model.refers_to_original) return status;
  const std::filesystem::path folder = std::filesystem::canonical(apparent.parent_path(), error);
  if (folder == real.parent_path()) return Status();
  // The data are beside the link, but the file itself is elsewhere, and the runtime takes only one
  // folder.
  if (plan->model.has_external_data) return prepare({});
  plan->folder = real_folder;
  return Status();
}

}  // namespace

Status SessionPlan::CheckUnchanged() const {
  if (!model.refers_to_original || platform::IdentityOf(path) == identity) return Status();
  return Status::Model("'" + path +
                       "' was changed or replaced while it was being opened, or since: its weights "
                       "are not those of the model that was prepared. Fix: open it again");
}

Status SessionPlan::Explain(Status error, std::string_view given) const {
  if (error.ok() || error.kind() != ErrorKind::kError) return error;
  platform::MappedFile original;
  if (given.empty() && original.Open(path).ok()) given = original.contents();
  const std::string why = model::Explain(given, origin, folder, error.message());
  return why.empty() ? ort::ToRefusal(std::move(error)) : Status::Model(why);
}

Status SessionPlan::NeedsFile(std::string_view runtime_version) {
  return Status::Unavailable(
      "a model with external data that must be prepared needs ONNX Runtime 1.21.1 or newer, but "
      "this "
      "one is " +
      std::string(runtime_version) +
      ". Fix: write it into the folder of its data first: opgraft prepare MODEL PREPARED");
}

Status MakePlan(const PlanRequest& request, const DeclaredSource& declared, SessionPlan* plan) try {
  const Packs& packs = Packs::OfThisProcess();
  Policy policy;
  Preference preference;
  Status status = Policy::Parse(request.allow, request.environment, &policy);
  if (status.ok()) status = Preference::Parse(request.prefer, packs, &preference);
  if (!status.ok()) return status;
  const std::unique_ptr<OperatorSource> others = declared(policy);
  PackOperators operators(packs, preference, *others);
  plan->path = request.path.value_or("");
  plan->origin = request.path ? "'" + plan->path + "'" : std::string(request.origin);
  plan->folder = request.folder;
  status = request.path ? PlanFile(request, operators, plan)
                        : Prepare(request.bytes, plan->origin, request.runtime_version, operators,
                                  &plan->model);
  const PreparedModel& model = plan->model;
  plan->opens_file = request.path && model.bytes.empty();
  plan->tells_folder = !plan->folder.empty() && !plan->opens_file &&
                       (model.has_external_data || model.refers_to_original);
  return status;
} catch (const std::exception& exception) {  // from paths, and the memory for them
  *plan = SessionPlan();
  return Status::Error("'" + request.path.value_or("") +
                       "' cannot be prepared: " + exception.what());
}

}  // namespace opgraft::model
