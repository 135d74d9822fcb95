// Loads libraries, and turns their declarations into schemas.
#include "core/packs.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/element_type.h"
#include "core/domains.h"
#include "core/platform.h"
#include "opgraft/attribute.h"

namespace opgraft {
namespace {

/// Returns "" for a text that the pack does not set.
std::string ToString(const char* text) { return text != nullptr ? text : ""; }
std::string ToString(const OpgraftText& text) { return {text.data, text.size}; }
std::vector<std::string> ToStrings(const OpgraftText* texts, std::size_t count) {
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < count; ++i) strings.push_back(ToString(texts[i]));
  return strings;
}
/// The domain of the operators that libopgraft registers for Python code (pyop::kDomain).
constexpr std::string_view kLibraryDomain = "ai.opgraft";

std::vector<Parameter> ToParameters(const OpgraftParameter* parameters, std::size_t count) {
  std::vector<Parameter> converted;
  for (std::size_t i = 0; i < count; ++i) {
    const OpgraftParameter& parameter = parameters[i];
    const bool is_variadic = parameter.occurrence == OPGRAFT_VARIADIC;
    converted.push_back({parameter.name, static_cast<Occurrence>(parameter.occurrence),
                         parameter.type, is_variadic ? parameter.minimum : 0,
                         ToString(parameter.description)});
  }
  return converted;
}

DefaultValue ToDefault(const OpgraftAttribute& value) {
  switch (value.kind) {
    case kAttributeKind<float>: return static_cast<double>(value.floats[0]);
    case kAttributeKind<std::int64_t>: return value.integers[0];
    case kAttributeKind<std::string>: return ToString(value.texts[0]);
    case kAttributeKind<TensorValue>: return DefaultTensor::CopyOf(*value.tensors);
    case kAttributeKind<std::vector<float>>:
      return std::vector<double>(value.floats, value.floats + value.count);
    case kAttributeKind<std::vector<std::int64_t>>:
      return std::vector<std::int64_t>(value.integers, value.integers + value.count);
    case kAttributeKind<std::vector<std::string>>: return ToStrings(value.texts, value.count);
    default: return {};
  }
}

std::shared_ptr<Schema> ToSchema(const OpgraftOperator& declaration, const std::string& path) {
  auto schema = std::make_shared<Schema>();
  schema->domain = declaration.domain;
  if (schema->domain == "ai.onnx") schema->domain.clear();
  schema->name = declaration.name;
  schema->documentation = ToString(declaration.documentation);
  schema->torch_name = ToString(declaration.torch_name);
  schema->since_version = declaration.since_version;
  schema->inputs = ToParameters(declaration.inputs, declaration.input_count);
  schema->outputs = ToParameters(declaration.outputs, declaration.output_count);
  for (std::size_t i = 0; i < declaration.type_count; ++i) {
    const OpgraftType& type = declaration.types[i];
    schema->types.push_back({{type.allowed, type.allowed + type.allowed_count},
                             type.is_tied != 0,
                             ToString(type.name),
                             ToString(type.description)});
  }
  for (std::size_t i = 0; i < declaration.attribute_count; ++i) {
    const OpgraftAttributeParameter& attribute = declaration.attributes[i];
    schema->attributes.push_back({attribute.name, attribute.kind, attribute.is_required != 0,
                                  ToDefault(attribute.fallback), false,
                                  ToString(attribute.description)});
  }
  schema->has_shape_rule = declaration.infer != nullptr;
  schema->native = std::make_shared<NativeOperator>();
  NativeOperator& native = *schema->native;
  native.declaration = &declaration;
  native.pack = path;
  native.runtime_domain = schema->domain;
  // libopgraft registers its own domain, and the runtime accepts each domain only once.
  if (IsRuntimeDomain(schema->domain) || schema->domain == kLibraryDomain) {
    native.runtime_domain = "ai.opgraft." + std::string(declaration.domain);
  }
  native.runtime_name = schema->name;
  for (std::size_t i = 0; i < declaration.kernel_count; ++i) {
    const OpgraftKernel& kernel = *declaration.kernels[i];
    native.kernels.push_back({kernel.device, {kernel.types, kernel.types + schema->types.size()}});
  }
  return schema;
}

/// Gives every version except the newest a name of its own for the runtime, because the runtime
/// knows only one version of an operator in a custom domain.
void NameVersions(const std::vector<std::shared_ptr<Schema>>& schemas) {
  for (const std::shared_ptr<Schema>& one : schemas) {
    for (const std::shared_ptr<Schema>& other : schemas) {
      if (other->native->runtime_domain != one->native->runtime_domain) continue;
      std::int64_t& version = one->native->domain_version;
      version = std::max(version, other->since_version);
      if (other->name == one->name && other->since_version > one->since_version) {
        one->native->runtime_name = one->name + "@" + std::to_string(one->since_version);
      }
    }
  }
}

/// Returns an error if models or the runtime could not tell two operators of a pack apart, else "".
std::string FindTwins(const std::vector<std::shared_ptr<Schema>>& schemas) {
  std::map<std::pair<std::string, std::int64_t>, std::size_t> positions;
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    auto [position, is_new] =
        positions.try_emplace({schemas[i]->FullName(), schemas[i]->since_version}, i);
    if (is_new) {
      std::tie(position, is_new) =
          positions.try_emplace({schemas[i]->native->RuntimeFullName(), 0}, i);
    }
    if (is_new) continue;
    const auto text = [&](std::size_t index) {
      return "operator " + std::to_string(index) + " of the pack, " + schemas[index]->FullName() +
             " of version " + std::to_string(schemas[index]->since_version);
    };
    return text(position->second) + ", and " + text(i) +
           ", are the same operator. Fix: give one of them another name or version, or "
           "remove it";
  }
  return "";
}

std::string Name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

std::string PackPath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

Packs& Packs::OfThisProcess() {
  static auto* const packs = new Packs;  // sessions may outlive every static object
  return *packs;
}

Status Packs::Load(const std::string& path, const OtherOwner& other_owner) {
  const std::string real = PackPath(path);
  {
    const std::lock_guard lock(mutex_);
    if (const auto loaded = loaded_.find(real); loaded != loaded_.end()) {
      if (loaded->second == platform::IdentityOf(real)) return Status();
      return Status::Error(
          "the pack '" + path +
          "' has changed since this process loaded it. Fix: restart the program to "
          "load the new version");
    }
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(real, error)) {
    return Status::Unavailable("there is no pack '" + path +
                               "'. Fix: make it with 'opgraft build'");
  }
  void* library = nullptr;
  if (Status status = platform::LoadLibrary(real, /*is_global=*/false, &library); !status.ok()) {
    return Status::Unavailable("the pack '" + path + "' cannot be loaded: " + status.message());
  }
  void* const symbol = platform::FindSymbol(library, OPGRAFT_PACK_SYMBOL);
  if (symbol == nullptr) {
    return Status::Unavailable(
        "'" + path +
        "' is not a pack: it has no function " OPGRAFT_PACK_SYMBOL
        ". Fix: register an ordinary library of custom operators with the session options: "
        "sess_options.register_custom_ops_library(path)");
  }
  const OpgraftPack* const pack = reinterpret_cast<const OpgraftPack* (*)()>(symbol)();
  if (pack == nullptr) {
    return Status::Unavailable(
        "'" + path + "' is not a pack: its function " OPGRAFT_PACK_SYMBOL " returns null");
  }
  return Add(*pack, real, other_owner);
}

Status Packs::Add(const OpgraftPack& pack, const std::string& path, const OtherOwner& other_owner) {
  const std::string who = "the pack '" + path + "'";
  if (pack.version > OPGRAFT_PACK_VERSION) {
    return Status::Unavailable(
        who + " has version " + std::to_string(pack.version) +
        " of the contract between packs and hosts, but this Opgraft supports "
        "up to version " +
        std::to_string(OPGRAFT_PACK_VERSION) +
        ". Fix: install a newer Opgraft, or build the pack with this one");
  }
  if (pack.problem != nullptr) return Status::Error(who + ": " + pack.problem);
  std::vector<std::shared_ptr<Schema>> schemas;
  for (std::size_t i = 0; i < pack.operator_count; ++i) {
    schemas.push_back(ToSchema(*pack.operators[i], path));
  }
  NameVersions(schemas);
  if (const std::string twins = FindTwins(schemas); !twins.empty()) {
    return Status::Error(who + ": " + twins);
  }
  for (const std::shared_ptr<Schema>& schema :
       schemas) {  // without the lock, because this may wait for Python
    const std::string other = other_owner(schema->FullName());
    if (other.empty()) continue;
    return Status::Error(schema->FullName() + " is declared by " + other + " and by " + who +
                         "; only one of them can have it");
  }
  const std::lock_guard lock(mutex_);
  if (loaded_.count(path) != 0) return Status();
  for (const std::shared_ptr<Schema>& schema : schemas) {
    const auto other = operators_.find(schema->FullName());
    if (other == operators_.end()) continue;
    return Status::Error(schema->FullName() + " is declared by the pack '" +
                         other->second.front()->native->pack + "' and by " + who +
                         "; only one of them can have it");
  }
  loaded_[path] = platform::IdentityOf(path);
  for (const std::shared_ptr<Schema>& schema : schemas) {
    Schemas& versions = operators_[schema->FullName()];
    versions.push_back(schema);
    std::sort(versions.begin(), versions.end(),
              [](const auto& a, const auto& b) { return a->since_version < b->since_version; });
    in_order_.push_back(schema);
  }
  return Status();
}

Status Packs::Find(std::string_view who, std::string_view full_name, std::int64_t version,
                   std::shared_ptr<const Schema>* schema) const {
  const std::lock_guard lock(mutex_);
  const auto found = operators_.find(full_name);
  if (found == operators_.end()) {
    for (const std::shared_ptr<const Schema>& candidate : in_order_) {
      if (candidate->native->RuntimeFullName() == full_name) *schema = candidate;
    }
    return Status();
  }
  const Schemas& versions = found->second;
  for (const std::shared_ptr<const Schema>& candidate : versions) {
    if (version == 0 || candidate->since_version <= version) *schema = candidate;
  }
  if (*schema != nullptr) return Status();
  const Schema& oldest = *versions.front();
  return Status::Model(std::string(who) + ": the model imports version " + std::to_string(version) +
                       " of '" + oldest.domain + "', but the pack " + Name(oldest.native->pack) +
                       " has the operator from version " + std::to_string(oldest.since_version) +
                       " on");
}

std::string Packs::OwnerOf(std::string_view full_name) const {
  const std::lock_guard lock(mutex_);
  const auto found = operators_.find(full_name);
  return found != operators_.end() ? found->second.front()->native->pack : "";
}

Packs::Schemas Packs::operators() const {
  const std::lock_guard lock(mutex_);
  return in_order_;
}

Packs::Schemas Packs::OperatorsOf(const std::string& path) const {
  const std::string real = PackPath(path);
  Schemas schemas = operators();
  schemas.erase(std::remove_if(schemas.begin(), schemas.end(),
                               [&](const auto& schema) { return schema->native->pack != real; }),
                schemas.end());
  return schemas;
}

}  // namespace opgraft
