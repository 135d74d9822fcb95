// Why ONNX Runtime cannot load a model, looked up in the model: its own words name no node and no
// remedy.
#pragma once

#include <string>
#include <string_view>

namespace opgraft::model {

/// What is wrong with `model`, of which ONNX Runtime said `text`: an input that nothing gives, with
/// the node that reads it, or a file of weights that is not there, or too short. "" where it is
/// about something else, or the bytes are no model. Messages name the model as `origin`; `folder`
/// is where the files of its weights are looked for, "" being the current one.
std::string Explain(std::string_view model, std::string_view origin, const std::string& folder,
                    std::string_view text);

}  // namespace opgraft::model
