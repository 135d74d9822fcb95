// The packs that are shipped with Opgraft, found in its folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/packs.h"

namespace opgraft {

/// Returns the operators of all packs in Opgraft's folder `packs`, read on first use. This
/// does not add them to Packs::OfThisProcess(), the packs that the process has loaded.
const Packs& ShippedPacks();

/// Returns the shipped packs that have an operator listed in `entries`, which are separated by
/// commas: "domain::Name" or a domain. Entries that a pack of `loaded` has are skipped.
std::vector<std::string> ShippedPacksWith(std::string_view entries, const Packs& loaded);

}  // namespace opgraft
