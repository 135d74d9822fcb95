// Records the operators that are running, to tell what opgraft-run was doing if something ends it.
#pragma once

#include <string>

#include "opgraft/status.h"

namespace opgraft::run {

/// From now on, a signal that ends the process is reported on stderr, with the operator that its
/// thread was in. With a path, the record is also kept in that file, which survives signals that
/// cannot be caught:
///
///     64 bytes       "running", "told" (a signal was reported on stderr) or "finished"
///     64 x 256 bytes what each thread runs, such as "node 'n', operator my.Op"; empty for none
///
/// all terminated by zeros. Must be called once, before any session is created.
Status OpenRecord(const std::string& path);

/// Marks that the program has ended normally: its exit status is its own.
void CloseRecord();

}  // namespace opgraft::run
