// The policy: the Python modules and torch operators that the host allows models to run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "opgraft/status.h"

namespace opgraft {

/// Returns true for names such as "module" or "package.module": each part is a Python identifier.
/// Letters outside ASCII are allowed, and are compared byte by byte.
bool IsDottedName(std::string_view name);

/// Whether a module, or something in it, belongs to Python's standard library, which contains no
/// operators: a model that names it is an attack or a mistake.
bool IsOfStandardLibrary(std::string_view name);

/// Returns true for "namespace::name" and "namespace::name.overload".
bool IsOperatorName(std::string_view name);

/// A list of module names, each exact ("package.module") or for all modules below a package
/// ("package.*"), and of torch operators ("aten::name" for all its overloads, or
/// "aten::name.overload"). Immutable after parsing, so that any thread may read it.
///
/// An entry may be a short name defined by Opgraft, such as "sklearn". It allows the one module
/// that runs what models of that kind contain, but no module or type of that name. AllowsType
/// decides what such a module may load.
class Policy {
 public:
  /// Parses two lists of entries separated by commas: the host's and OPGRAFT_ALLOW.
  static Status Parse(std::string_view allow, std::string_view environment, Policy* policy);

  /// Returns the lists as one, for another process that is to have the same policy.
  std::string ToText() const;

  bool Allows(std::string_view module) const;

  /// Returns the entry that allows `module`: its short name, or its own name.
  static std::string_view AllowanceOf(std::string_view module);
  /// Whether `module` runs what the model itself contains. The process that wrote such a model may
  /// run it without an entry; the bridge to Python checks that.
  static bool RunsWhatModelsHold(std::string_view module);
  /// Describes what a model contains for such a module; "" for any other module.
  static std::string_view HeldFor(std::string_view module);

  /// Returns the error for `module`, which `who` would run, with instructions to allow it.
  Status Refusal(std::string_view who, std::string_view module) const;

  /// Whether a stored type or function, "module.Name", may be loaded: it is allowed by its own
  /// name, or by the name of its module or class.
  bool AllowsType(std::string_view name) const;
  Status TypesRefusal(std::string_view who, const std::vector<std::string>& names) const;

  /// The same for a torch operator, "aten::name" or "aten::name.overload".
  bool AllowsOperator(std::string_view full_name) const;
  Status OperatorRefusal(std::string_view who, std::string_view full_name) const;
  /// Returns the error for an operator that is not torch's own and names no module to allow.
  Status HomelessRefusal(std::string_view who, std::string_view full_name) const;

 private:
  std::string Allowed() const;
  /// Says what is allowed, what allowing these names means, and how to do it.
  std::string Advice(const std::vector<std::string>& names) const;
  Status Add(std::string_view list, std::string_view source);

  std::vector<std::string> entries_;
};

}  // namespace opgraft
