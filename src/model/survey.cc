// One pass over the model's bytes, in which weights are skipped without reading them.
#include "model/survey.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <tuple>

#include "base/runtime_version.h"
#include "core/our_modules.h"
#include "model/aten_node.h"
#include "model/declared_values.h"
#include "model/fields.h"
#include "model/graphs.h"
#include "model/lowering.h"
#include "model/nesting.h"
#include "model/onnx_tags.h"
#include "model/opset_changes.h"
#include "model/opset_import.h"
#include "model/our_nodes.h"
#include "model/pyop_node.h"
#include "model/python_spec.h"
#include "model/reading.h"
#include "model/runtime_limits.h"

namespace opgraft::model {
namespace {

constexpr std::size_t kMostNodes = 5;
constexpr std::int64_t kMixed = -1;  // during the survey: the types of nodes differ

/// The operator of a node that torch runs, according to the node's attributes.
struct TorchName {
  std::string full_name;
  std::string_view defined_in;
};

TorchName ReadTorchName(std::string_view node, std::string_view name) {
  TorchName read;
  std::string_view overload;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const std::string_view attribute = ReadAttributeHead(reader.field().Bytes()).name;
    const std::string_view text = ReadText(reader.field().Bytes(), tag::kAttributeString);
    if (attribute == "operator" && name.empty()) name = text;
    if (attribute == "overload_name") overload = text;
    if (attribute == "defined_in") read.defined_in = text;
  }
  if (name.empty()) return read;
  read.full_name = (name.find("::") == name.npos ? "aten::" : "") + std::string(name) +
                   (overload.empty() ? "" : "." + std::string(overload));
  return read;
}

using Versions = std::map<std::string_view, std::int64_t>;  // by domain

/// The location of a graph, from the inside out.
struct Place {
  const Place* outer = nullptr;
  std::string_view function;  // the name of the function, or
  std::string_view attribute;
  std::string node;
  DeclaredValues values = DeclaredValues();

  std::string Text() const {
    std::string text;
    for (const Place* place = this; place != nullptr; place = place->outer) {
      if (place->function.empty() && place->attribute.empty()) continue;
      if (!text.empty()) text += " in ";
      text += place->attribute.empty()
                  ? "function " + std::string(place->function)
                  : std::string(place->attribute) + " of '" + place->node + "'";
    }
    return text;
  }
};

class Surveyor {
 public:
  Surveyor(std::string_view origin, std::string_view runtime_version, Survey* survey)
      : origin_(origin),
        limits_(LimitsOf(RuntimeVersion::Parse(runtime_version))),
        survey_(survey) {}

  Status Run(std::string_view model);

 private:
  Status LookAtGraph(std::string_view graph, int depth, const Versions& versions, Place* place);
  Status LookAtFunction(std::string_view function);
  Status LookAtNode(std::string_view node, int depth, const Versions& versions, const Place& place);
  Status LookIntoNode(std::string_view node, const NodeHead& head, int depth,
                      const Versions& versions, const Place& place);
  Status Note(std::string_view node, const NodeHead& head, std::int64_t version,
              const Place& place);
  Status NotePyOp(std::string_view node, const NodeHead& head, const Place& place);
  static void NoteNode(std::string_view node, const NodeHead& head, const Place& place,
                       SurveyedOperator* noted);
  static void NoteAttributes(std::string_view node, SurveyedOperator* noted);
  void NoteImport(const OpsetImport& import, Versions* versions);
  static void NoteValue(std::string_view name, std::int64_t type, std::size_t index,
                        std::vector<SurveyedValue>* values);
  /// Returns the operator that these parts identify.
  SurveyedOperator& FindOrAdd(std::initializer_list<std::string_view> parts);

  const std::string_view origin_;
  const RuntimeLimits limits_;
  Survey* const survey_;
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> functions_;
  std::map<std::string, std::size_t, std::less<>> places_;  // positions in the list of operators
};

Status Surveyor::Run(std::string_view model) {
  Versions versions;
  survey_->ir_limit = limits_.ir_version;
  survey_->ir_known = kNewestKnownIr;
  for (const auto& [name, module] : ReadModules(model)) survey_->modules[name] = module;
  for (FieldReader reader(model); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kMetadata: {
        const std::string_view key = ReadText(field.Bytes(), tag::kEntryKey);
        if (key == kHoldsWhereKey) {
          survey_->holds_where = ReadText(field.Bytes(), tag::kEntryValue);
        }
        if (key == kDiffersKey) survey_->differs = ReadText(field.Bytes(), tag::kEntryValue);
        break;
      }
      case tag::kIrVersion: survey_->ir_version = field.Integer(); break;
      case tag::kOpsetImport: NoteImport(ReadOpsetImport(field.Bytes()), &versions); break;
      case tag::kFunctions: {
        std::string_view domain;
        std::string_view name;
        std::string_view overload;
        for (FieldReader function(field.Bytes()); function.Next();) {
          const std::uint32_t kind = function.field().tag();
          if (kind == tag::kFunctionDomain) domain = function.field().Bytes();
          if (kind == tag::kFunctionName) name = function.field().Bytes();
          if (kind == tag::kFunctionOverload) overload = function.field().Bytes();
        }
        functions_.emplace(Normalized(domain), name, overload);
        break;
      }
    }
  }
  for (FieldReader reader(model); reader.Next();) {
    Status status;
    if (reader.field().tag() == tag::kGraph) {
      Place place;
      status = LookAtGraph(reader.field().Bytes(), 0, versions, &place);
    }
    if (reader.field().tag() == tag::kFunctions) status = LookAtFunction(reader.field().Bytes());
    if (!status.ok()) return status;
  }
  for (SurveyedOperator& noted : survey_->operators) {
    for (auto* const values : {&noted.inputs, &noted.outputs}) {
      for (SurveyedValue& value : *values) {
        value.element_type = std::max<std::int64_t>(value.element_type, 0);
      }
    }
    for (auto& [name, attribute] : noted.attributes) {
      attribute.type = std::max<std::int64_t>(attribute.type, 0);
    }
  }
  return Status();
}

Status Surveyor::LookAtGraph(std::string_view graph, int depth, const Versions& versions,
                             Place* place) {
  if (depth > kMaximumDepth) return NestedTooDeep(origin_);
  place->values.Read(graph);
  for (FieldReader reader(graph); reader.Next();) {
    if (reader.field().tag() != tag::kGraphNode) continue;
    Status status = LookAtNode(reader.field().Bytes(), depth, versions, *place);
    if (!status.ok()) return status;
  }
  return Status();
}

Status Surveyor::LookAtFunction(std::string_view function) {
  Versions versions;
  Place place;
  std::string_view domain;
  std::string_view name;
  for (FieldReader reader(function); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kFunctionName: name = field.Bytes(); break;
      case tag::kFunctionDomain: domain = field.Bytes(); break;
      case tag::kFunctionOpsetImport: NoteImport(ReadOpsetImport(field.Bytes()), &versions); break;
      case tag::kFunctionValueInfo: place.values.Add(ReadValueInfo(field.Bytes())); break;
    }
  }
  const std::string full_name =
      std::string(domain) + (domain.empty() ? "" : ".") + std::string(name);
  place.function = full_name;
  for (FieldReader reader(function); reader.Next();) {
    if (reader.field().tag() != tag::kFunctionNode) continue;
    Status status = LookAtNode(reader.field().Bytes(), 0, versions, place);
    if (!status.ok()) return status;
  }
  return Status();
}

Status Surveyor::LookAtNode(std::string_view node, int depth, const Versions& versions,
                            const Place& place) {
  const NodeHead head = ReadHead(node);
  const auto version = versions.find(Normalized(head.domain));
  if (!head.module.empty()) {
    const std::string name =
        std::string(Normalized(head.domain)) + "::" + std::string(head.op_type);
    survey_->modules.try_emplace(name, head.module);
  }
  Status status = Note(node, head, version != versions.end() ? version->second : 0, place);
  // The contents of a Python operator's graphs are not surveyed.
  if (!status.ok() || head.IsPyOp()) return status;
  return LookIntoNode(node, head, depth, versions, place);
}

Status Surveyor::LookIntoNode(std::string_view node, const NodeHead& head, int depth,
                              const Versions& versions, const Place& place) {
  Status status;
  VisitGraphsOf(node, [&](std::string_view graph, std::string_view attribute) {
    if (!status.ok()) return;
    Place inner = {.outer = &place,
                   .function = {},
                   .attribute = ReadText(attribute, tag::kAttributeName),
                   .node = NodeName(node, head),
                   .values = DeclaredValues(&place.values)};
    status = LookAtGraph(graph, depth + 1, versions, &inner);
  });
  return status;
}

SurveyedOperator& Surveyor::FindOrAdd(std::initializer_list<std::string_view> parts) {
  std::string key;
  for (const std::string_view part : parts) (key += part) += '\n';
  const auto [found, is_new] = places_.try_emplace(key, survey_->operators.size());
  if (is_new) survey_->operators.emplace_back();
  return survey_->operators[found->second];
}

Status Surveyor::Note(std::string_view node, const NodeHead& head, std::int64_t version,
                      const Place& place) {
  if (head.IsPyOp()) return NotePyOp(node, head, place);
  const std::string_view domain = Normalized(head.domain);
  // The legacy exporter may write the operator as the node's type.
  const TorchName torch = IsAten(head)
                              ? ReadTorchName(node, head.op_type == kAtenOpType ? "" : head.op_type)
                              : TorchName();
  SurveyedOperator& noted = FindOrAdd({domain, head.op_type, head.overload, torch.full_name});
  NoteNode(node, head, place, &noted);
  noted.torch_operator = torch.full_name;
  noted.is_function = functions_.contains({domain, head.op_type, head.overload});
  noted.version = std::max(noted.version, version);
  NoteAttributes(node, &noted);
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (FieldReader reader(node); reader.Next();) {
    const Field& field = reader.field();
    const bool is_input = field.tag() == tag::kNodeInput;
    if (!is_input && field.tag() != tag::kNodeOutput) continue;
    const std::string_view name = field.Bytes();
    NoteValue(name, place.values.TypeOf(name), is_input ? inputs++ : outputs++,
              is_input ? &noted.inputs : &noted.outputs);
  }
  if (noted.is_function) return Status();
  std::string difference = DifferenceIn(limits_, node, head, version);
  if (!difference.empty()) noted.differences.insert(std::move(difference));
  return Status();
}

Status Surveyor::NotePyOp(std::string_view node, const NodeHead& head, const Place& place) {
  PyOpNode read;
  if (Status status = ReadPyOp(node, &read); !status.ok()) return status;
  const pyop::Spec& spec = read.spec;
  bool is_referring = false;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const AttributeHead attribute = ReadAttributeHead(reader.field().Bytes());
    for (const std::string_view name :
         {pyop::attribute::kModule, pyop::attribute::kClassName, pyop::attribute::kCompute}) {
      is_referring |= attribute.is_reference && attribute.name == name;
    }
  }
  const OurModule* const ours = FindOurModule(spec.module);
  const bool is_torchs = ours != nullptr && ours->runs_torch && spec.class_name == ours->class_name;
  const TorchName torch = is_torchs ? ReadTorchName(spec.arguments, "") : TorchName();
  SurveyedOperator& noted =
      FindOrAdd({is_referring ? "a PyOp of its calls" : "a PyOp", spec.module, spec.class_name,
                 spec.compute, spec.operator_name, torch.full_name, torch.defined_in});
  NoteNode(node, head, place, &noted);
  noted.is_pyop = true;
  noted.is_referring = is_referring;
  noted.module = spec.module;
  noted.class_name = spec.class_name;
  noted.compute = spec.compute;
  noted.operator_name = spec.operator_name;
  noted.torch_operator = torch.full_name;
  noted.defined_in = torch.defined_in;
  NoteAttributes(spec.arguments, &noted);
  // The positions in a prepared node may be any numbers.
  const std::size_t arguments = spec.Places(read.inputs.size());
  for (std::size_t i = 0; i < arguments; ++i) {
    const std::int64_t input = spec.InputPlace(i);
    const bool is_present = input >= 0 && static_cast<std::size_t>(input) < read.inputs.size();
    const std::string_view name = is_present ? read.inputs[static_cast<std::size_t>(input)] : "";
    const bool has_type = i < spec.input_types.size();
    NoteValue(name, has_type ? spec.input_types[i] : place.values.TypeOf(name), i, &noted.inputs);
  }
  for (std::size_t i = 0; i < read.outputs.size(); ++i) {
    const bool has_type = i < spec.output_types.size() && spec.output_places.empty();
    const std::int64_t type =
        has_type ? spec.output_types[i] : place.values.TypeOf(read.outputs[i]);
    NoteValue(read.outputs[i], type, i, &noted.outputs);
  }
  return Status();
}

void Surveyor::NoteNode(std::string_view node, const NodeHead& head, const Place& place,
                        SurveyedOperator* noted) {
  if (noted->count++ == 0) {
    noted->domain = Normalized(head.domain);
    noted->op_type = head.op_type;
    noted->overload = head.overload;
  }
  if (noted->nodes.size() == kMostNodes) return;
  noted->nodes.push_back({NodeName(node, head), place.Text()});
}

void Surveyor::NoteAttributes(std::string_view node, SurveyedOperator* noted) {
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != tag::kNodeAttribute) continue;
    const AttributeHead head = ReadAttributeHead(reader.field().Bytes());
    SurveyedAttribute& attribute = noted->attributes[std::string(head.name)];
    if (attribute.count++ == 0) attribute.type = head.type;
    if (attribute.type != head.type) attribute.type = kMixed;
  }
}

void Surveyor::NoteValue(std::string_view name, std::int64_t type, std::size_t index,
                         std::vector<SurveyedValue>* values) {
  if (index >= values->size()) values->emplace_back();
  if (name.empty()) return;
  SurveyedValue& value = (*values)[index];
  if (value.count++ == 0) {
    value.name = name;
    value.element_type = type;
  }
  if (value.element_type != type) value.element_type = kMixed;
}

void Surveyor::NoteImport(const OpsetImport& import, Versions* versions) {
  const std::string_view domain = Normalized(import.domain);
  std::int64_t& version = (*versions)[domain];
  version = std::max(version, import.version);
  auto known = std::find_if(survey_->imports.begin(), survey_->imports.end(),
                            [&](const SurveyedImport& noted) { return noted.domain == domain; });
  if (known == survey_->imports.end()) {
    const std::int64_t limit = OpsetLimit(limits_, domain).value_or(0);
    // For other domains, no version after the runtime's is known.
    const std::int64_t known = domain.empty() ? NewestKnownOpset() : limit;
    survey_->imports.push_back(
        {std::string(domain), import.version, limit, domain == kContribDomain ? 0 : known});
  } else {
    known->version = std::max(known->version, import.version);
  }
}

}  // namespace

Status TakeSurvey(std::string_view model, std::string_view origin, std::string_view runtime_version,
                  Survey* survey) {
  *survey = Survey();
  survey->is_ort_format = IsRuntimeFormat(model);
  return ReadModel(model, origin, runtime_version, "survey",
                   [&] { return Surveyor(origin, runtime_version, survey).Run(model); });
}

}  // namespace opgraft::model
