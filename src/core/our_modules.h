// Opgraft's Python modules that nodes may name: for torch operators and scikit-learn estimators.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace opgraft {

struct OurModule {
  std::string_view name;
  std::string_view class_name;  ///< the class that runs nodes
  bool runs_torch = false;      ///< its nodes name a torch operator
  // If the module runs code or data that the model itself contains:
  std::string_view allowance;  ///< the name to allow instead of its own; else ""
  std::string_view held;       ///< what the model contains, for messages; else ""
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
              .held =
                  "a stored scikit-learn estimator, which can do anything that a program can: call "
                  "functions that the model names, write files, start processes, crash this "
                  "one"},
};

/// Returns nullptr if the module is not one of Opgraft's.
constexpr const OurModule* FindOurModule(std::string_view name) {
  const auto* const found = std::ranges::find(kOurModules, name, &OurModule::name);
  return found != kOurModules.end() ? found : nullptr;
}

}  // namespace opgraft
