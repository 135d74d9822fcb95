// Adds a Cast when something first reads a value in another type.
#include "model/typed_values.h"

#include <protozero/pbf_writer.hpp>
#include <utility>

#include "model/fields.h"
#include "model/graphs.h"
#include "model/onnx_tags.h"

namespace opgraft::model {

ValueNames::ValueNames(std::string_view graph) {
  VisitGraphs(graph, [this](std::string_view inner) {
    for (FieldReader reader(inner); reader.Next();) {
      const Field& field = reader.field();
      switch (field.tag()) {
        case tag::kGraphNode:
          for (FieldReader node(field.Bytes()); node.Next();) {
            const std::uint32_t kind = node.field().tag();
            if (kind == tag::kNodeInput || kind == tag::kNodeOutput) {
              taken_.insert(node.field().Bytes());
            }
          }
          break;
        case tag::kGraphInitializer:
          taken_.insert(ReadText(field.Bytes(), tag::kTensorName));
          break;
        case tag::kGraphInput:
        case tag::kGraphOutput:
        case tag::kGraphValueInfo: taken_.insert(ReadText(field.Bytes(), tag::kValueName)); break;
      }
    }
  });
}

std::string_view ValueNames::New(std::string_view name, const std::string& suffix) {
  const std::string first = std::string(name) + suffix;
  std::string wish = first;
  if (taken_.contains(wish)) {
    std::size_t& number = numbers_.try_emplace(first, 1).first->second;
    do {
      wish = first + "_" + std::to_string(++number);
    } while (taken_.contains(wish));
  }
  const std::string_view made = made_.emplace_back(std::move(wish));
  taken_.insert(made);
  return made;
}

TypedValues* TypedValues::OwnerOf(std::string_view name) {
  for (TypedValues* graph = this; graph != nullptr; graph = graph->outer_) {
    if (graph->values_.contains(name)) return graph;
  }
  return nullptr;
}

ValueType TypedValues::TypeOf(std::string_view name) const {
  const TypedValues* const owner = OwnerOf(name);
  return owner != nullptr ? owner->values_.at(name).type : 0;
}

ValueType TypedValues::RawType(std::string_view name) const {
  const TypedValues* const owner = OwnerOf(name);
  return owner != nullptr ? owner->values_.at(name).raw_type : 0;
}

std::string_view TypedValues::Own(std::string_view name) {
  TypedValues* const owner = OwnerOf(name);
  if (owner == nullptr) return name;
  TypedValue& value = owner->values_.at(name);
  if (value.is_narrow) return name;
  owner->AddCast(value.raw, name, value.type, value.island);
  value.is_narrow = true;
  return name;
}

std::string_view TypedValues::Exact(std::string_view name, ValueType type, std::size_t island) {
  TypedValues* const owner = OwnerOf(name);
  if (owner == nullptr) return name;
  TypedValue& value = owner->values_.at(name);
  if (value.type == type) return Own(name);
  std::string_view& exact = value.exact[type];
  if (!exact.empty()) return exact;
  const std::string_view own = Own(name);
  exact = names_->New(name, "." + TypeName(type));
  owner->AddCast(own, exact, type, island);
  return exact;
}

std::string_view TypedValues::Raw(std::string_view name, ValueType type, std::size_t island) {
  const TypedValues* const owner = OwnerOf(name);
  if (owner == nullptr) return name;
  const TypedValue& value = owner->values_.at(name);
  return value.raw_type == type ? value.raw : Exact(name, type, island);
}

std::string_view TypedValues::Any(std::string_view name) {
  const TypedValues* const owner = OwnerOf(name);
  if (owner == nullptr) return name;
  const TypedValue& value = owner->values_.at(name);
  return value.is_narrow ? name : value.raw;
}

void TypedValues::AddCast(std::string_view from, std::string_view to, ValueType type,
                          std::size_t island) {
  std::string attribute;
  protozero::pbf_writer attribute_writer(attribute);
  attribute_writer.add_string(tag::kAttributeName, "to");
  attribute_writer.add_int64(tag::kAttributeInt, type);
  attribute_writer.add_enum(tag::kAttributeType, tag::kInt);
  std::string node;
  protozero::pbf_writer writer(node);
  writer.add_string(tag::kNodeInput, from.data(), from.size());
  writer.add_string(tag::kNodeOutput, to.data(), to.size());
  writer.add_string(tag::kNodeOpType, "Cast");
  writer.add_message(tag::kNodeAttribute, attribute);
  Rope cast;
  cast.Own(std::move(node));
  casts_.AddMessage(tag::kGraphNode, std::move(cast));
  if (counts_->size() <= island) counts_->resize(island + 1);
  ++(*counts_)[island];
}

}  // namespace opgraft::model
