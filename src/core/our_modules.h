// The Python modules of Opgraft's own that nodes of a model may name: what runs operators of torch,
// and what runs estimators of scikit-learn.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace opgraft {

struct OurModule {
  std::string_view name;
  std::string_view class_name;  ///< the class that runs nodes
  bool runs_torch = false;      ///< its nodes name an operator of torch
  // Where it runs what a model itself holds:
  std::string_view allowance;  ///< what to allow instead of its name; else ""
  std::string_view held;       ///< what a model holds, in words; else ""
};

inline constexpr std::array kOurModules = {
    OurModule{.name = "opgraft.torch.operators",
              .class_name = "TorchOperator",
              .runs_torch = true,
              .allowance = {},
              .held = {}},
    OurModule{.name = "opgraft.sklearn.operators",
              .class_name = "Estimator",
              .runs_torch = false,
              .allowance = "sklearn",
              .held = "a stored scikit-learn estimator, which can do all that a program can: call "
                      "functions that the model names, write files, start processes, crash this "
                      "one"},
};

/// nullptr for a module of somebody else's.
constexpr const OurModule* FindOurModule(std::string_view name) {
  const auto* const found = std::ranges::find(kOurModules, name, &OurModule::name);
  return found != kOurModules.end() ? found : nullptr;
}

}  // namespace opgraft
