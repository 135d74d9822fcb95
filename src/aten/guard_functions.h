// The checks by theme, for the table in guards.cc: each returns "", or a text that says what is
// wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "aten/guards.h"
#include "aten/named_arguments.h"

namespace opgraft::aten {

/// Returns whether all integers of a tensor lie between `least` and `most`, both included. True for
/// tensors of other types, which the operator itself refuses; false for those that cannot be read.
bool LieWithin(const InputTensor& tensor, std::int64_t least, std::int64_t most);

/// Returns a number as messages write it: 0.5, 1e-30, nan.
std::string NumberText(double number);

/// Returns the product of two sizes; nullopt if one is negative or the product overflows.
std::optional<std::int64_t> Product(std::int64_t one, std::int64_t other);

// guards_indices.cc: indices, lengths and offsets, and integers that overflow.
std::string CheckLabels(const NamedArguments& arguments);
std::string CheckSegments(const NamedArguments& arguments);
std::string CheckRepeats(const NamedArguments& arguments);
std::string CheckNotSmallest(const NamedArguments& arguments);
std::string CheckQuotient(const NamedArguments& arguments);

// guards_matrices.cc: factors and numbers for LAPACK.
std::string CheckFactorsOfUnpack(const NamedArguments& arguments);
std::string CheckFactorsOfOldSolve(const NamedArguments& arguments);
std::string CheckFactorsOfSolve(const NamedArguments& arguments);
std::string CheckBlocks(const NamedArguments& arguments);
std::string CheckFinite(const NamedArguments& arguments);
std::string CheckPoints(const NamedArguments& arguments);

// guards_images.cc: sampling of images.
std::string CheckResampling(const NamedArguments& arguments);
std::string CheckGrid(const NamedArguments& arguments);

// guards_layers.cc: normalization and attention.
std::string CheckStatistics(const NamedArguments& arguments);
std::string CheckGroups(const NamedArguments& arguments);
std::string CheckAttention(const NamedArguments& arguments);
std::string CheckFlashAttention(const NamedArguments& arguments);
std::string CheckMaskedSoftmax(const NamedArguments& arguments);

// guards_gpu.cc: numbers that only the kernels for the CPU check.
std::string CheckIndicesAlong(const NamedArguments& arguments);
std::string CheckSignedIndicesAlong(const NamedArguments& arguments);
std::string CheckIndicesOfAll(const NamedArguments& arguments);
std::string CheckTakenAlong(const NamedArguments& arguments);
std::string CheckIndicesOfEach(const NamedArguments& arguments);
std::string CheckRows(const NamedArguments& arguments);
std::string CheckUnpooling(const NamedArguments& arguments);
std::string CheckClasses(const NamedArguments& arguments);
std::string CheckOneHot(const NamedArguments& arguments);
std::string CheckEnoughForMask(const NamedArguments& arguments);
std::string CheckChances(const NamedArguments& arguments);
std::string CheckRates(const NamedArguments& arguments);
std::string CheckQuantiles(const NamedArguments& arguments);
std::string CheckCountedRepeats(const NamedArguments& arguments);
std::string CheckWeights(const NamedArguments& arguments);

// guards_counts.cc: calls that would not end.
std::string CheckPower(const NamedArguments& arguments);
std::string CheckDifferences(const NamedArguments& arguments);
std::string CheckGammas(const NamedArguments& arguments);
std::string CheckChosen(const NamedArguments& arguments);
std::string CheckGrids(const NamedArguments& arguments);
std::string CheckChain(const NamedArguments& arguments);
std::string CheckPadding(const NamedArguments& arguments);
std::string CheckSections(const NamedArguments& arguments);
std::string CheckChunks(const NamedArguments& arguments);
std::string CheckUnbound(const NamedArguments& arguments);
std::string CheckSplit(const NamedArguments& arguments);
std::string CheckZeta(const NamedArguments& arguments);
std::string CheckPolygamma(const NamedArguments& arguments);
std::string CheckDegree(const NamedArguments& arguments);

// guards_recurrent.cc: cells of recurrent layers.
std::string CheckLstm(const NamedArguments& arguments);
std::string CheckGru(const NamedArguments& arguments);
std::string CheckRnn(const NamedArguments& arguments);

}  // namespace opgraft::aten
