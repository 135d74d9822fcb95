// The packs that come with Opgraft: found in its folder, whoever asks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/packs.h"

namespace opgraft {

/// The operators of all packs in the folder `packs` of Opgraft, read when they are first asked for.
/// This process need not have loaded any: Packs::OfThisProcess() has those that are.
const Packs& ShippedPacks();

/// The packs among them that have something of `entries`, "domain::Name" or a domain, separated by
/// commas: of what no pack of `loaded` has.
std::vector<std::string> ShippedPacksWith(std::string_view entries, const Packs& loaded);

}  // namespace opgraft
