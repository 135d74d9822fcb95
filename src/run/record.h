// What opgraft-run leaves for those who ask why it ended: the operators that run at the moment.
#pragma once

#include <string>

#include "opgraft/status.h"

namespace opgraft::run {

/// From now on a signal that ends the process is told on the standard error, with the operator that
/// its thread was in. With a path, the record is that file too, in which it outlives a signal that
/// nobody can catch:
///
///     64 bytes       "running", "told" (a signal, on the standard error) or "finished"
///     64 x 256 bytes what a thread is in, such as "node 'n', operator my.Op"; empty for none
///
/// all ended by zeros. To be called once, before any session is made.
Status OpenRecord(const std::string& path);

/// The program has said all that it will say: what it exits with is its own.
void CloseRecord();

}  // namespace opgraft::run
