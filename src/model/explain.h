// Explains why ONNX Runtime cannot load a model. Its own messages name no node and suggest no fix.
#pragma once

#include <string>
#include <string_view>

namespace opgraft::model {

/// Returns what is wrong with `model`, given the message `text` of ONNX Runtime: a node reads an
/// input that nothing defines, an operator of onnxruntime-extensions is unknown, or a file of
/// weights is missing or too short. Returns "" if the message is about something else, or if the
/// bytes are not a model. Messages name the model as `origin`. `folder` is where the files of
/// weights are searched; "" is the current folder.
std::string Explain(std::string_view model, std::string_view origin, const std::string& folder,
                    std::string_view text);

}  // namespace opgraft::model
