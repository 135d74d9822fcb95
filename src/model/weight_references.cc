// Writes what ONNX calls external data: the name of a file, an offset and a length.
#include "model/weight_references.h"

#include <functional>
#include <protozero/pbf_writer.hpp>

#include "model/fields.h"
#include "model/onnx_tags.h"

namespace opgraft::model {
namespace {

/// A smaller model is copied quickly, and its file may then be overwritten while sessions made from
/// it are in use.
constexpr std::size_t kSmallestModel = std::size_t{16} << 20U;

/// The runtime maps each tensor on its own, in whole pages. It also reads small ones, such as the
/// shapes for Reshape, while it loads the model.
constexpr std::size_t kSmallestTensor = 4096;

bool IsWithin(std::string_view part, std::string_view whole) {
  const std::less_equal<const char*> is_before;
  return is_before(whole.data(), part.data()) &&
         is_before(part.data() + part.size(), whole.data() + whole.size());
}

std::string WriteEntry(std::string_view key, std::string_view value) {
  std::string entry;
  protozero::pbf_writer writer(entry);
  writer.add_string(tag::kEntryKey, key.data(), key.size());
  writer.add_string(tag::kEntryValue, value.data(), value.size());
  return entry;
}

}  // namespace

WeightReferences::WeightReferences(std::string_view model, std::string_view file_name)
    : model_(model), file_name_(model.size() >= kSmallestModel ? file_name : std::string_view()) {}

bool WeightReferences::Write(std::string_view tensor, Rope* out) {
  if (file_name_.empty() || tensor.size() < kSmallestTensor || !IsWithin(tensor, model_)) {
    return false;
  }
  Rope rest;
  std::string_view data;
  for (FieldReader reader(tensor); reader.Next();) {
    const Field& field = reader.field();
    switch (field.tag()) {
      case tag::kTensorRaw:
        if (!data.empty()) return false;
        data = field.Bytes();
        break;
      case tag::kTensorExternalData:
      case tag::kTensorDataLocation: return false;
      default: rest.Borrow(field.slice());
    }
  }
  if (data.size() < kSmallestTensor) return false;
  std::string location;
  protozero::pbf_writer writer(location);
  const auto offset = static_cast<std::size_t>(data.data() - model_.data());
  for (const std::string& entry :
       {WriteEntry("location", file_name_), WriteEntry("offset", std::to_string(offset)),
        WriteEntry("length", std::to_string(data.size()))}) {
    writer.add_message(tag::kTensorExternalData, entry);
  }
  writer.add_enum(tag::kTensorDataLocation, tag::kExternal);
  rest.Own(std::move(location));
  out->Append(std::move(rest));
  ++count_;
  return true;
}

}  // namespace opgraft::model
