// Parses the list of allowed names, and matches names against it.
#include "core/policy.h"

#include <algorithm>
#include <array>

#include "core/our_modules.h"

namespace opgraft {
namespace {

/// Returns a module of Opgraft that runs what the model itself contains; nullptr for other modules.
const OurModule* FindHolder(std::string_view module) {
  const OurModule* const found = FindOurModule(module);
  return found != nullptr && !found->held.empty() ? found : nullptr;
}

bool IsShortName(std::string_view entry) {
  return !entry.empty() &&
         std::ranges::find(kOurModules, entry, &OurModule::allowance) != kOurModules.end();
}

constexpr auto kStandardLibrary = std::to_array<std::string_view>({
#include "core/standard_library.inc"
});

bool IsNamePart(std::string_view part) {
  const auto is_letter = [](unsigned char sign) {
    return (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') || sign == '_' ||
           sign >= 0x80;
  };
  const auto is_name_sign = [&](unsigned char sign) {
    return is_letter(sign) || (sign >= '0' && sign <= '9');
  };
  return !part.empty() && is_letter(static_cast<unsigned char>(part.front())) &&
         std::all_of(part.begin(), part.end(), is_name_sign);
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::string Quoted(const std::vector<std::string>& names) {
  std::string quoted;
  for (const std::string& name : names) quoted += (quoted.empty() ? "\"" : ", \"") + name + "\"";
  return quoted;
}

}  // namespace

bool IsOfStandardLibrary(std::string_view name) {
  return std::ranges::binary_search(kStandardLibrary, name.substr(0, name.find('.')));
}

bool IsDottedName(std::string_view name) {
  while (true) {
    const std::size_t dot = name.find('.');
    if (!IsNamePart(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

bool IsOperatorName(std::string_view name) {
  const std::size_t colons = name.find("::");
  if (colons == name.npos || !IsNamePart(name.substr(0, colons))) return false;
  const std::string_view rest = name.substr(colons + 2);
  return IsDottedName(rest) && std::count(rest.begin(), rest.end(), '.') <= 1;
}

Status Policy::Parse(std::string_view allow, std::string_view environment, Policy* policy) {
  *policy = Policy();
  Status status = policy->Add(allow, "allow");
  return status.ok() ? policy->Add(environment, "OPGRAFT_ALLOW") : status;
}

Status Policy::Add(std::string_view list, std::string_view source) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view entry = Trim(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    if (entry.empty()) continue;
    const bool is_pattern = entry.ends_with(".*");
    if (!IsOperatorName(entry) &&
        !IsDottedName(is_pattern ? entry.substr(0, entry.size() - 2) : entry)) {
      return Status::Error(std::string(source) + ": '" + std::string(entry) +
                           "' is neither the name of a Python module ('package.module', or "
                           "'package.*' for all modules below a package) nor of a torch operator "
                           "('aten::name')");
    }
    entries_.emplace_back(entry);
  }
  return Status();
}

std::string_view Policy::AllowanceOf(std::string_view module) {
  const OurModule* const holder = FindHolder(module);
  return holder != nullptr ? holder->allowance : module;
}

bool Policy::RunsWhatModelsHold(std::string_view module) { return FindHolder(module) != nullptr; }

std::string_view Policy::HeldFor(std::string_view module) {
  const OurModule* const holder = FindHolder(module);
  return holder != nullptr ? holder->held : std::string_view();
}

bool Policy::Allows(std::string_view module) const {
  const std::string_view allowance = AllowanceOf(module);
  // "package.*" is for modules, not for the commands of a package.
  const bool is_special = module.find(".__") != module.npos;
  return std::any_of(entries_.begin(), entries_.end(), [&](std::string_view entry) {
    if (IsShortName(entry)) return entry == allowance && allowance != module;
    if (!entry.ends_with(".*")) return module == entry;
    return module.starts_with(entry.substr(0, entry.size() - 1)) && IsDottedName(module) &&
           !is_special;
  });
}

Status Policy::Refusal(std::string_view who, std::string_view module) const {
  const std::string name(AllowanceOf(module));
  const OurModule* const holder = FindHolder(module);
  const std::string what =
      holder != nullptr
          ? " contains " + std::string(holder->held) + ". This host does not allow that "
          : " runs the Python module '" + name + "', which this host does not allow ";
  // An entry such as "sklearn.*" allows only types of that package.
  const auto similar = std::ranges::find_if(entries_, [&](std::string_view entry) {
    return holder != nullptr && entry.starts_with(std::string(holder->allowance) + ".");
  });
  const std::string hint = similar == entries_.end()
                               ? ""
                               : "; '" + *similar + "' does not allow it: write '" + name + "'";
  return Status::Policy(std::string(who) + what + Advice({name}) + hint);
}

std::string Policy::ToText() const {
  std::string text;
  for (const std::string& entry : entries_) text += (text.empty() ? "" : ",") + entry;
  return text;
}

bool Policy::AllowsType(std::string_view name) const {
  if (!IsDottedName(name) || name.find(".__") != name.npos) return false;
  const std::string_view home = name.substr(0, std::min(name.rfind('.'), name.size()));
  return home != name && !RunsWhatModelsHold(home) && (Allows(name) || Allows(home));
}

Status Policy::TypesRefusal(std::string_view who, const std::vector<std::string>& names) const {
  return Status::Policy(std::string(who) + " contains types that this host does not allow: " +
                        Quoted(names) + " " + Advice(names));
}

bool Policy::AllowsOperator(std::string_view full_name) const {
  const std::string_view all = full_name.substr(0, full_name.rfind('.'));
  return std::any_of(entries_.begin(), entries_.end(), [&](std::string_view entry) {
    return IsOperatorName(entry) && (entry == full_name || entry == all);
  });
}

Status Policy::OperatorRefusal(std::string_view who, std::string_view full_name) const {
  return Status::Policy(
      std::string(who) +
      " is not among the torch operators that every model may run, because it trusts its arguments "
      "or reaches beyond them. This host does not allow it " +
      Advice({std::string(full_name)}));
}

Status Policy::HomelessRefusal(std::string_view who, std::string_view full_name) const {
  return Status::Policy(
      std::string(who) + " runs the torch operator " + std::string(full_name) +
      " but does not name the Python module that defines it. This host does not allow it " +
      Advice({std::string(full_name)}));
}

std::string Policy::Advice(const std::vector<std::string>& names) const {
  const std::string allowed = "(allowed: " + Allowed() + "). ";
  const auto standard = std::ranges::find_if(names, IsOfStandardLibrary);
  if (standard != names.end()) {
    return allowed + "'" + *standard +
           "' belongs to Python's standard library, parts of which can run any program. It "
           "contains "
           "no operators, so do not allow it: a model that asks for it is an attack or a mistake";
  }
  const std::string quoted = Quoted(names);
  std::string options;
  std::string listed;
  for (const std::string& name : names) {
    options += " --allow " + name;
    listed += (listed.empty() ? "" : ",") + name;
  }
  return allowed +
         "Allowing it means that you trust this file as you trust a program. Fix: if you do, "
         "create "
         "the session with allow=[" +
         quoted + "]" + (entries_.empty() ? "" : " in addition to what is already allowed") +
         " (in C++ {.modules = {" + quoted + "}}, for the command" + options +
         "), or set OPGRAFT_ALLOW=" + listed + " in the environment";
}

std::string Policy::Allowed() const {
  std::string allowed;
  for (const std::string& entry : entries_) allowed += (allowed.empty() ? "" : ", ") + entry;
  return allowed.empty() ? "none" : allowed;
}

}  // namespace opgraft
