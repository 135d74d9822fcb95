// The part of embedding.cc, which starts Python in a program, that the rest of the module uses.
#pragma once

namespace opgraft::pyop {

/// To be called once, by the module, so that forked children of a Python program can run operators.
/// Does nothing if opgraft_start_python has started Python, which has done the same already.
void PrepareForForks();

}  // namespace opgraft::pyop
