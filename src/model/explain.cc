// Takes from the runtime's text what to search for, and reports what the model contains.
#include "model/explain.h"

#include <charconv>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/text.h"
#include "core/domains.h"
#include "model/fields.h"
#include "model/graphs.h"
#include "model/onnx_tags.h"
#include "model/pyop_node.h"

namespace opgraft::model {
namespace {

using Visit = std::function<void(std::string_view)>;

/// Calls `visit` with each tensor: the weights and the tensors in attributes.
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

/// Returns "node 'add', operator Add", the form that Opgraft's errors use.
std::string Who(std::string_view node) {
  const NodeHead head = ReadHead(node);
  PyOpNode read;
  if (head.IsPyOp() && ReadPyOp(node, &read).ok()) return read.spec.Who();
  return "node '" + NodeName(node, head) + "', operator " +
         (head.domain.empty() ? "" : std::string(head.domain) + "::") + std::string(head.op_type);
}

/// Returns the position of a value among the node's inputs or outputs.
std::optional<std::size_t> PositionOf(std::string_view name, std::string_view node,
                                      tag::Node kind) {
  std::size_t position = 0;
  for (FieldReader reader(node); reader.Next();) {
    if (reader.field().tag() != kind) continue;
    if (reader.field().Bytes() == name) return position;
    ++position;
  }
  return std::nullopt;
}

/// Returns the name in "Node input 'NAME' is not a graph input, ...", which the runtime says, or in
/// "... however input 'NAME' of node: ...", which onnx says about nested graphs.
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
  std::string producer;
  VisitNodes(model, [&](std::string_view node) {
    const std::optional<std::size_t> input = PositionOf(name, node, tag::kNodeInput);
    if (reader.empty() && input) reader = Who(node) + ": input " + std::to_string(*input);
    if (producer.empty() && PositionOf(name, node, tag::kNodeOutput)) producer = Who(node);
  });
  if (reader.empty()) return "";
  const std::string quoted = "'" + std::string(name) + "'";
  if (!producer.empty()) {
    return reader + " is " + quoted + ", which " + producer +
           " computes, but later or in another graph. Fix: put the nodes into the order in which "
           "they run, or use a value that is available there";
  }
  return reader + " is " + quoted +
         ", which nothing defines: no node, weight or input of the graph has this name. Fix: use "
         "the "
         "name of an existing value, or add an input of the graph or a weight of this name";
}

/// Explains a node of onnxruntime-extensions that is unknown. Its operators are written in Python,
/// by the author, or are native and then in the library of that package.
std::string ExplainExtension(std::string_view model, std::string_view text) {
  std::string found;
  VisitNodes(model, [&](std::string_view node) {
    const NodeHead head = ReadHead(node);
    if (!found.empty() || head.domain != kExtensionsDomain) return;
    const std::string unknown = std::string(kExtensionsDomain) + ":" + std::string(head.op_type) +
                                "(-1) is not a registered";
    if (text.find(unknown) == text.npos) return;
    found = Who(node) +
            ": no operator of this name is declared or registered. Fix: if it is one of "
            "onnxruntime-extensions' own, register its library with the session options: "
            "sess_options.register_custom_ops_library(onnxruntime_extensions.get_library_path()), "
            "and make the session by opgraft.InferenceSession(model, sess_options); if it is a "
            "Python operator, declare it first, by @onnx_op of opgraft.extensions, or import the "
            "module that does: imports=[\"my_operators\"] (docs/extensions.md)";
  });
  return found;
}

/// Where the data of a tensor are stored, according to its external data fields.
struct Location {
  std::string name;
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

std::optional<Location> LocationOf(std::string_view tensor) {
  Location location;
  bool is_external = false;
  for (FieldReader reader(tensor); reader.Next();) {
    const Field& field = reader.field();
    if (field.tag() == tag::kTensorName) location.name = field.Bytes();
    if (field.tag() == tag::kTensorDataLocation) is_external = field.Integer() == tag::kExternal;
    if (field.tag() != tag::kTensorExternalData) continue;
    const std::string_view key = ReadText(field.Bytes(), tag::kEntryKey);
    const std::string_view value = ReadText(field.Bytes(), tag::kEntryValue);
    const auto read = [&](std::uint64_t* number) {
      std::from_chars(value.data(), value.data() + value.size(), *number);
    };
    if (key == "location") location.file = value;
    if (key == "offset") read(&location.offset);
    if (key == "length") read(&location.length);
  }
  return is_external && !location.file.empty() ? std::optional(location) : std::nullopt;
}

/// Whether a symbolic link on the path leads out of the folder.
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
    const std::optional<Location> data = found.empty() ? LocationOf(tensor) : std::nullopt;
    // If a program has given the runtime the file's contents, the text does not mention the file.
    const auto is_in_text = [&](std::string_view part) { return text.find(part) != text.npos; };
    if (!data || !(is_in_text("xternal") ||
                   is_in_text(std::filesystem::path(data->file).filename().string()))) {
      return;
    }
    std::error_code error;
    const std::filesystem::path base =
        folder.empty() ? std::filesystem::current_path(error) : std::filesystem::path(folder);
    const std::filesystem::path location = std::filesystem::path(data->file).lexically_normal();
    const std::filesystem::path path = base / location;
    const std::string weight =
        std::string(origin) + ": its weight '" + data->name + "' is stored in '";
    if (location.is_absolute() || *location.begin() == ".." ||
        (is_in_text("escapes") && LeadsOutside(base, path))) {
      // Nothing is revealed about a file outside, not even whether it exists.
      if (!is_in_text("xternal data path")) return;
      found = weight + data->file + "', outside of the model's folder " + base.string() +
              ", and ONNX Runtime does not read weights from there. Fix: copy the file into that "
              "folder and save the model with only the file's name (onnx.save(model, ..., "
              "save_as_external_data=True, location=\"weights.bin\")), or with its weights inside";
      return;
    }
    if (!std::filesystem::exists(path, error)) {
      found = weight + data->file + "', but there is no such file in the folder " + base.string() +
              ". Fix: copy '" + data->file +
              "' there from where the model was saved, or save the model again with its weights "
              "inside";
      return;
    }
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error || (data->offset <= size && data->length <= size - data->offset)) return;
    found = weight + data->file + "', at bytes " + std::to_string(data->offset) + " to " +
            std::to_string(data->offset + data->length) + ", but that file in the folder " +
            base.string() + " has only " + std::to_string(size) +
            " bytes. Fix: copy it again from where the model was saved";
  });
  return found;
}

}  // namespace

std::string Explain(std::string_view model, std::string_view origin, const std::string& folder,
                    std::string_view text) {
  try {
    std::string found = ExplainInput(model, text);
    if (found.empty()) found = ExplainExtension(model, text);
    if (found.empty()) found = ExplainFile(model, origin, folder, text);
    return Readable(found);
  } catch (const std::exception&) {  // from bytes that are not a model, or from paths
    return "";
  }
}

}  // namespace opgraft::model
