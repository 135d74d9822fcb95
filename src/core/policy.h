// What a model may run: the Python modules, and operators of torch, that the host has allowed by
// name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"

namespace opgraft {

/// True for names such as "module" or "package.module": no empty part, no sign but the underscore.
/// Letters outside ASCII count, and are compared as they are written, byte by byte.
bool IsDottedName(std::string_view name);

/// Whether a module, or what is in it, is of Python's standard library. No operator is in there, so
/// that a model that names one is an attack or a mistake.
bool IsOfStandardLibrary(std::string_view name);

/// True for "namespace::name" and "namespace::name.overload".
bool IsOperatorName(std::string_view name);

/// A list of module names, each exact ("package.module") or all below a package ("package.*"), and
/// of operators of torch ("aten::name" for all its overloads, or "aten::name.overload"). Immutable
/// once made, so that it may be read from any thread.
///
/// An entry may be a short name of ours, such as "sklearn": it allows the one module that runs what
/// models of that kind hold, and no module or type of its own name. What such a module loads is
/// asked for by AllowsType.
class Policy {
 public:
  /// Reads two lists of entries separated by commas: the host's, and that of OPGRAFT_ALLOW.
  static Status Parse(std::string_view allow, std::string_view environment, Policy* policy);

  bool Allows(std::string_view module) const;

  /// What to write in a list to allow `module`: its short name, or its own.
  static std::string_view AllowanceOf(std::string_view module);
  /// Whether `module` runs what the model itself holds. The process that has written such a model
  /// may run it without an allowance, which the bridge to Python finds out.
  static bool RunsWhatModelsHold(std::string_view module);
  /// What a model holds for such a module, in words; "" for any other module.
  static std::string_view HeldFor(std::string_view module);

  /// The refusal of `module`, which `who` would have run, with the lines that would allow it.
  Status Refusal(std::string_view who, std::string_view module) const;

  /// Whether a stored type or function, "module.Name", may be loaded: by its own name, or by that
  /// of the module or class that it is of.
  bool AllowsType(std::string_view name) const;
  Status TypesRefusal(std::string_view who, const std::vector<std::string>& names) const;

  /// The same for an operator of torch, "aten::name" or "aten::name.overload".
  bool AllowsOperator(std::string_view full_name) const;
  Status OperatorRefusal(std::string_view who, std::string_view full_name) const;
  /// Of one that is not torch's own, where no module is named that could be allowed.
  Status HomelessRefusal(std::string_view who, std::string_view full_name) const;

 private:
  std::string Allowed() const;
  /// What is allowed, what allowing these names means, and how to do it.
  std::string Advice(const std::vector<std::string>& names) const;
  Status Add(std::string_view list, std::string_view source);

  std::vector<std::string> entries_;
};

}  // namespace opgraft
