// Python in a program that has none, as far as the rest of the module is to know of it.
#pragma once

namespace opgraft::pyop {

/// To be called once, by the module: children of a Python program can run operators. A program that
/// has started Python has seen to it already.
void PrepareForForks();

}  // namespace opgraft::pyop
