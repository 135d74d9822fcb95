// Maps the file, and determines where its data are.
#include "model/session_plan.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/packs.h"
#include "model/explain.h"
#include "model/fields.h"
#include "model/islands.h"
#include "model/onnx_tags.h"
#include "model/opset_import.h"
#include "model/pack_operators.h"
#include "model/reading.h"
#include "model/refusal.h"
#include "model/runtime_limits.h"

namespace opgraft::model {
namespace {

/// ONNX Runtime gets the folder through an entry of its options, whose length is limited.
constexpr std::size_t kLongestFolder = 1000;

/// What a rescue must know about the model as it was written.
struct Written {
  std::int64_t opset = 0;  ///< of ONNX's own domain
  bool has_functions = false;

  explicit Written(std::string_view model) {
    for (FieldReader reader(model); reader.Next();) {
      const Field& field = reader.field();
      has_functions |= field.tag() == tag::kFunctions;
      if (field.tag() != tag::kOpsetImport) continue;
      const OpsetImport import = ReadOpsetImport(field.Bytes());
      if (IsDefaultDomain(import.domain)) opset = std::max(opset, import.version);
    }
  }
};

/// Rescues the nodes of `model`, which was prepared as `prepared`, and changes that if it succeeds.
Status RescueNodes(const PlanRequest& request, std::string_view model, std::string_view origin,
                   const Written& written, std::string_view file_name, PreparedModel* prepared,
                   std::string* why_refused) {
  const bool is_original = prepared->bytes.empty();
  const RuntimeLimits limits = LimitsOf(RuntimeVersion::Parse(request.runtime_version));
  Islands islands;
  Status status = MakeIslands({.model = is_original ? model : prepared->bytes,
                               .origin = origin,
                               .runtime_version = request.runtime_version,
                               .written_opset = written.opset,
                               .file_name = is_original && limits.takes_folder ? file_name : "",
                               .rounds_each = request.exact,
                               .probe = request.probe},
                              &islands);
  *why_refused = WhyRefused(islands.refused, request.runtime_version);
  if (!status.ok() || islands.bytes.empty()) return status;
  prepared->bytes = std::move(islands.bytes);
  prepared->refers_to_original |= islands.refers_to_file;
  prepared->needs_file = prepared->has_external_data && !limits.takes_folder;
  prepared->rescues.insert(prepared->rescues.end(), islands.rescues.begin(), islands.rescues.end());
  return Status();
}

/// Prepares `model`, and rescues what the runtime has no kernels for if that is requested.
Status PrepareAndRescue(const PlanRequest& request, std::string_view model,
                        OperatorSource& operators, std::string_view file_name, SessionPlan* plan) {
  const auto prepare = [&](PreparedModel* prepared, bool inlines_functions) {
    return Prepare(model, plan->origin, request.runtime_version, operators, prepared, file_name,
                   inlines_functions);
  };
  Status status = prepare(&plan->model, false);
  if (!status.ok() || request.probe == nullptr || IsRuntimeFormat(model)) return status;
  const Written written(model);
  // Functions hide their nodes. They stay if inlining does not help, or is not possible.
  PreparedModel inlined;
  std::string why_refused;
  if (written.has_functions && prepare(&inlined, true).ok()) {
    const std::size_t before = inlined.rescues.size();
    status = RescueNodes(request, model, plan->origin, written, file_name, &inlined, &why_refused);
    if (status.ok()) plan->why_refused = why_refused;
    if (!status.ok() || inlined.rescues.size() == before) return Status();
    plan->model = std::move(inlined);
    return Status();
  }
  return RescueNodes(request, model, plan->origin, written, file_name, &plan->model,
                     &plan->why_refused);
}

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
    return PrepareAndRescue(request, file.contents(), operators, name, plan);
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

Status SessionPlan::ExplainRescue(Status error) const {
  if (why_refused.empty()) return error;
  return Status::Model(origin + ": " + why_refused + " (" + error.message() + ")");
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
                        : PrepareAndRescue(request, request.bytes, operators, {}, plan);
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
