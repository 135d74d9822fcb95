// The runtime's text says what to look for; what is found in the model is told.
#include "model/explain.h"

#include <charconv>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "core/text.h"
#include "model/fields.h"
#include "model/graphs.h"
#include "model/onnx_tags.h"
#include "model/pyop_node.h"

namespace opgraft::model {
namespace {

using Visit = std::function<void(std::string_view)>;

/// Calls `visit` with each tensor: weights, and those in attributes.
void VisitTensors(std::string_view model, const Visit& visit) {
  for (FieldReader reader(model); reader.Next();) {
    if (reader.field().tag() != tag::kGraph) continue;
    VisitGraphs(reader.field().Bytes(), [&](std::string_view graph) {
      for (FieldReader weights(graph); weights.Next();) {
        if (weights.field().tag() == tag::kGraphInitializer) visit(weights.field().Bytes());
      }
    });
  }
  VisitNodes(model, [&](std::string_view node) {
    for (FieldReader reader(node); reader.Next();) {
      if (reader.field().tag() != tag::kNodeAttribute) continue;
      for (FieldReader attribute(reader.field().Bytes()); attribute.Next();) {
        if (attribute.field().tag() == tag::kAttributeTensor) visit(attribute.field().Bytes());
      }
    }
  });
}

/// "node 'add', operator Add", as errors of ours call it.
std::string Who(std::string_view node) {
  const NodeHead head = ReadHead(node);
  PyOpNode read;
  if (head.IsPyOp() && ReadPyOp(node, &read).ok()) return read.spec.Who();
  return "node '" + NodeName(node, head) + "', operator " +
         (head.domain.empty() ? "" : std::string(head.domain) + "::") + std::string(head.op_type);
}

/// Its place among the node's values of a kind.
std::optional<std::size_t> PlaceOf(std::string_view name, std::string_view node, tag::Node kind) {
  std::size_t place = 0;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != kind) continue;
    if (reader.field().Bytes() == name) return place;
    ++place;
  }
  return std::nullopt;
}

/// The name in "Node input 'NAME' is not a graph input, ...", which is what the runtime says, or in
/// "... however input 'NAME' of node: ...", which onnx says in it of graphs inside others.
std::string_view MissingInput(std::string_view text) {
  constexpr std::string_view kMarks[][2] = {{"Node input '", "' is not a graph input"},
                                            {"however input '", "' of node"}};
  for (const auto& [before, after] : kMarks) {
    const std::size_t found = text.find(before);
    if (found == text.npos) continue;
    const std::size_t start = found + before.size();
    const std::size_t end = text.find(after, start);
    if (end != text.npos) return text.substr(start, end - start);
  }
  return "";
}

std::string ExplainInput(std::string_view model, std::string_view text) {
  const std::string_view name = MissingInput(text);
  if (name.empty()) return "";
  std::string reader;
  std::string giver;
  VisitNodes(model, [&](std::string_view node) {
    const std::optional<std::size_t> input = PlaceOf(name, node, tag::kNodeInput);
    if (reader.empty() && input) reader = Who(node) + ": input " + std::to_string(*input);
    if (giver.empty() && PlaceOf(name, node, tag::kNodeOutput)) giver = Who(node);
  });
  if (reader.empty()) return "";
  const std::string quoted = "'" + std::string(name) + "'";
  if (!giver.empty()) {
    return reader + " is " + quoted + ", which " + giver +
           " gives, but after it or in another graph. Fix: put the nodes into the order in which "
           "they run, or read a value that is there";
  }
  return reader + " is " + quoted +
         ", which nothing gives: neither a node, nor a weight, nor an input of the graph. Fix: "
         "name a value that is there, or make it an input of the graph or a weight";
}

/// Where a tensor lies, as its fields of external data say.
struct Place {
  std::string name;
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

std::optional<Place> PlaceOf(std::string_view tensor) {
  Place place;
  bool is_external = false;
  for (FieldReader reader(tensor); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kTensorName) place.name = field.Bytes();
    if (field.tag() == tag::kTensorDataLocation) is_external = field.Integer() == tag::kExternal;
    if (field.tag() != tag::kTensorExternalData) continue;
    const std::string_view key = ReadText(field.Bytes(), tag::kEntryKey);
    const std::string_view value = ReadText(field.Bytes(), tag::kEntryValue);
    const auto read = [&](std::uint64_t* number) {
      std::from_chars(value.data(), value.data() + value.size(), *number);
    };
    if (key == "location") place.file = value;
    if (key == "offset") read(&place.offset);
    if (key == "length") read(&place.length);
  }
  return is_external && !place.file.empty() ? std::optional(place) : std::nullopt;
}

/// Whether a link on the way leads out of the folder.
bool LeadsOutside(const std::filesystem::path& folder, const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path within =
      std::filesystem::weakly_canonical(path, error)
          .lexically_relative(std::filesystem::weakly_canonical(folder, error));
  return !error && (within.empty() || *within.begin() == "..");
}

std::string ExplainFile(std::string_view model, std::string_view origin, const std::string& folder,
                        std::string_view text) {
  std::string found;
  VisitTensors(model, [&](std::string_view tensor) {
    const std::optional<Place> place = found.empty() ? PlaceOf(tensor) : std::nullopt;
    // A program may have given the runtime the file's contents: then it does not speak of it.
    const auto is_in_text = [&](std::string_view part) { return text.find(part) != text.npos; };
    if (!place || !(is_in_text("xternal") ||
                    is_in_text(std::filesystem::path(place->file).filename().string()))) {
      return;
    }
    std::error_code error;
    const std::filesystem::path base =
        folder.empty() ? std::filesystem::current_path(error) : std::filesystem::path(folder);
    const std::filesystem::path location = std::filesystem::path(place->file).lexically_normal();
    const std::filesystem::path path = base / location;
    const std::string weight = std::string(origin) + ": its weight '" + place->name + "' lies in '";
    if (location.is_absolute() || *location.begin() == ".." ||
        (is_in_text("escapes") && LeadsOutside(base, path))) {
      // Of a file out there, nothing is told, not even whether it exists.
      if (!is_in_text("xternal data path")) return;
      found = weight + place->file + "', outside of the model's folder " + base.string() +
              ", where ONNX Runtime reads no weights. Fix: copy the file into that folder and save "
              "the model with its name alone (onnx.save(model, ..., save_as_external_data=True, "
              "location=\"weights.bin\")), or with its weights inside";
      return;
    }
    if (!std::filesystem::exists(path, error)) {
      found = weight + place->file + "', and there is no such file in the folder " + base.string() +
              ". Fix: put '" + place->file +
              "' there, as it was beside the model when that was saved; or save the model again, "
              "with its weights inside";
      return;
    }
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error || (place->offset <= size && place->length <= size - place->offset)) return;
    found = weight + place->file + "', at bytes " + std::to_string(place->offset) + " to " +
            std::to_string(place->offset + place->length) + ", but that file, in the folder " +
            base.string() + ", has " + std::to_string(size) +
            " bytes. Fix: copy it again, from where the model was saved";
  });
  return found;
}

}  // namespace

std::string Explain(std::string_view model, std::string_view origin, const std::string& folder,
                    std::string_view text) {
  try {
    std::string found = ExplainInput(model, text);
    if (found.empty()) found = ExplainFile(model, origin, folder, text);
    return Readable(found);
  } catch (const std::exception&) {  // of bytes that are no model, and of paths
    return "";
  }
}

}  // namespace opgraft::model
