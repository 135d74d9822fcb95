// Recognises errors by their text, because the runtime has few kinds of errors.
#include "model/refusal.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace opgraft::ort {
namespace {

constexpr std::string_view kTwice = "Domain already set in registry";
constexpr std::string_view kSameName = "Conflicting with a registered kernel";
constexpr std::string_view kNoOverload = "no kernel def matches node inputs for Op: ";

constexpr std::string_view kAboutTheModel[] = {
    "invalid model", "oad model", "opset import", "Protobuf", "not a registered",
    "Type Error",    kNoOverload, kTwice,         kSameName};

/// Returns "domain::Name" from "domain:Name(-1) is not a registered function/op", or "".
std::string MissingOperator(std::string_view text) {
  const std::size_t end = text.find("(-1) is not a registered");
  if (end == text.npos) return "";
  const std::size_t space = text.find_last_of(" \n", end);
  std::string name(text.substr(space + 1, end - space - 1));
  const std::size_t colon = name.rfind(':');
  return colon != name.npos ? name.substr(0, colon) + "::" + name.substr(colon + 1) : "";
}

/// Returns how to fix the error, if that is known.
std::string HintFor(const std::string& text) {
  if (text.find(kNoOverload) != text.npos) {
    return ". The operator has no kernel for these types of inputs. Fix: a Cast before it may help";
  }
  const std::string missing = MissingOperator(text);
  if (missing.empty()) return "";
  return ". The operator " + missing +
         " is not defined. Fix: if a Python module declares it with @opgraft.op, import that "
         "first: "
         "imports=[\"my_operators\"] (--import my_operators for the commands, {.imports = "
         "{\"my_operators\"}} in C++); if it belongs to a pack, load that: "
         "opgraft.load(\"libmy_op.so\") (--pack libmy_op.so, opgraft::Load in C++); if it belongs "
         "to "
         "another custom operator library, register that with the session options; 'opgraft doctor "
         "MODEL' tells more";
}

}  // namespace

Status ToRefusal(Status status) {
  if (status.kind() != ErrorKind::kError) return status;
  const std::string& text = status.message();
  const auto is_in_text = [&](std::string_view mark) { return text.find(mark) != text.npos; };
  if (!std::any_of(std::begin(kAboutTheModel), std::end(kAboutTheModel), is_in_text)) return status;
  if (is_in_text(kTwice) || is_in_text(kSameName)) {
    return Status::Error(
        text +
        ". Two libraries of the session options have operators in the same domain, or a library is "
        "registered twice. Fix: do not register a pack that is loaded (opgraft.load, "
        "opgraft::Load) "
        "with the options too; load packs that share a domain, or build them into one library; an "
        "opgraft.InferenceSession does not need opgraft.extensions.get_library_path()");
  }
  return Status::Model("ONNX Runtime refuses the model: " + text + HintFor(text));
}

}  // namespace opgraft::ort
