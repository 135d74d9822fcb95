// Runs the operators of packs on NumPy arrays, and their shape rules, for the package onnx.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace opgraft::pyop {

/// Runs an operator once and returns its outputs as arrays. Each input is an array or None.
nanobind::list RunOperator(const std::string& full_name, std::int64_t version,
                           const nanobind::list& inputs, const nanobind::dict& attributes,
                           std::size_t outputs);

/// Runs the shape rule. Each input is None or a tuple: its type, its shape (None, or a tuple of
/// int, str and None) and its value (an array or None).
nanobind::list InferOperator(const std::string& full_name, std::int64_t version,
                             const nanobind::list& inputs, const nanobind::dict& attributes,
                             std::size_t outputs);

}  // namespace opgraft::pyop
