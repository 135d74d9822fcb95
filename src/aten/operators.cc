// Searches the list linearly: each node does so only once, when it is created.
#include "aten/operators.h"

#include <algorithm>

namespace opgraft::aten {
namespace {

constexpr std::string_view kOperators =
#include "aten/operators.inc"
    ;

constexpr char kNeedsAllowance = '!';
constexpr char kUninitialized = '0';

}  // namespace

std::vector<Operator> FindOperators(std::string_view name) {
  std::vector<Operator> found;
  for (std::string_view left = kOperators; !left.empty();) {
    const std::size_t end = std::min(left.find('\n'), left.size() - 1);
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(end + 1);
    if (line.size() < name.size() + 2 || line.substr(1, name.size()) != name) continue;
    const char next = line[1 + name.size()];
    Operator one;
    if ((next != '(' && next != '.') || !ReadSchema(line.substr(1), &one.schema)) continue;
    one.is_listed = line[0] != kNeedsAllowance;
    one.is_uninitialized = line[0] == kUninitialized;
    found.push_back(std::move(one));
  }
  return found;
}

std::optional<bool> IsListed(std::string_view full_name) {
  const std::string_view name = WithoutNamespace(full_name);
  const std::size_t dot = std::min(name.find('.'), name.size());
  for (const Operator& one : FindOperators(name.substr(0, dot))) {
    if (one.schema.overload == name.substr(std::min(dot + 1, name.size()))) return one.is_listed;
  }
  return std::nullopt;
}

std::string_view WithoutNamespace(std::string_view name) {
  const std::size_t colons = name.find("::");
  if (colons == name.npos) return name;
  return name.substr(0, colons) == "aten" ? name.substr(colons + 2) : std::string_view();
}

std::string_view AllOperators() { return kOperators; }

}  // namespace opgraft::aten
