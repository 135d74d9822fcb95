// The bodies of operators that move elements or turn them.
#include "model/body_writers.h"

namespace opgraft::model {
namespace {

/// The largest block whose area is an int64.
constexpr std::int64_t kLargestBlock = std::int64_t{1} << 31U;

struct Blocks {
  std::int64_t size;
  bool is_column_first;  // mode "CRD": the channels are the slowest, not the blocks
};

Blocks ReadBlocks(const BodyNode& node) {
  const std::string_view mode = node.Text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    throw NoBodyError("its attribute 'mode' is neither 'DCR' nor 'CRD'");
  }
  const std::int64_t size = node.IntegerFrom(1, "blocksize", 0);
  if (size >= kLargestBlock) throw NoBodyError("its attribute 'blocksize' is too large");
  return {size, mode == "CRD"};
}

std::string WriteSizes(const Blocks& blocks) {
  return "block = Constant <value: tensor = int64[1] {" + std::to_string(blocks.size) +
         "}> () area = Constant <value: tensor = int64[1] {" +
         std::to_string(blocks.size * blocks.size) + R"(}> ()
  batch = Shape <start = 0, end = 1> (input)
  channels = Shape <start = 1, end = 2> (input)
  height = Shape <start = 2, end = 3> (input)
  width = Shape <start = 3, end = 4> (input)
  )";
}

}  // namespace

std::string WriteSpaceToDepth(const BodyNode& node) {
  const Blocks blocks = ReadBlocks(node);
  return "SpaceToDepth <blocksize, mode> (input) => (output) {" + WriteSizes(blocks) + R"(
  rows = Div (height, block)
  columns = Div (width, block)
  depth = Mul (channels, area)
  split_shape = Concat <axis = 0> (batch, channels, rows, block, columns, block)
  split = Reshape <allowzero = 1> (input, split_shape)
  moved = Transpose <perm = )" +
         (blocks.is_column_first ? "[0, 1, 3, 5, 2, 4]" : "[0, 3, 5, 1, 2, 4]") + R"(> (split)
  output_shape = Concat <axis = 0> (batch, depth, rows, columns)
  output = Reshape <allowzero = 1> (moved, output_shape)
  })";
}

std::string WriteDepthToSpace(const BodyNode& node) {
  const Blocks blocks = ReadBlocks(node);
  return "DepthToSpace <blocksize, mode> (input) => (output) {" + WriteSizes(blocks) + R"(
  rows = Mul (height, block)
  columns = Mul (width, block)
  depth = Div (channels, area)
  split_shape = Concat <axis = 0> )" +
         (blocks.is_column_first ? "(batch, depth, block, block, height, width)"
                                 : "(batch, block, block, depth, height, width)") +
         R"(
  split = Reshape <allowzero = 1> (input, split_shape)
  moved = Transpose <perm = )" +
         (blocks.is_column_first ? "[0, 1, 4, 2, 5, 3]" : "[0, 3, 4, 1, 5, 2]") + R"(> (split)
  output_shape = Concat <axis = 0> (batch, depth, rows, columns)
  output = Reshape <allowzero = 1> (moved, output_shape)
  })";
}

/// The pairs of elements that are turned are neighbours if the attribute says so, else halves.
std::string WriteRotaryEmbedding(const BodyNode& node) {
  const std::int64_t heads = node.IntegerFrom(0, "num_heads", 0);
  const std::int64_t turned = node.IntegerFrom(0, "rotary_embedding_dim", 0);
  const bool is_interleaved = node.Integer("interleaved", 0) != 0;
  const pyop::DeclaredShape shape = node.ShapeOf(0);
  if (shape && shape->size() != 3 && shape->size() != 4) {
    throw NoBodyError("its input X has " + std::to_string(shape->size()) +
                      " dimensions, expected 3 or 4");
  }
  if (!shape && heads > 0) {
    throw NoBodyError(
        "its body depends on whether X has 3 or 4 dimensions, which the model does not declare. "
        "Fix: run onnx.shape_inference on it");
  }
  const bool is_packed = shape && shape->size() == 3;
  if (is_packed && heads == 0) {
    throw NoBodyError("its input X has 3 dimensions, and needs the attribute 'num_heads'");
  }
  std::string text =
      "RotaryEmbedding <interleaved, num_heads, rotary_embedding_dim> "
      "(X, cos_cache, sin_cache, position_ids?) => (Y) {";
  text += is_packed ? "split_shape = Constant <value: tensor = int64[4] {0, 0, " +
                          std::to_string(heads) + ", -1}> () heads = Reshape (X, split_shape) "
                    : "heads = Transpose <perm = [0, 2, 1, 3]> (X) ";
  text += R"(
  zero = Constant <value: tensor = int64[1] {0}> ()
  two = Constant <value: tensor = int64[1] {2}> ()
  last = Constant <value: tensor = int64[1] {-1}> ()
  size = Shape <start = 3, end = 4> (heads)
  )";
  text += turned == 0 ? "turned_size = Identity (size) "
                      : "turned_size = Constant <value: tensor = int64[1] {" +
                            std::to_string(turned) + "}> () ";
  text += R"(
  half = Div (turned_size, two)
  turning = Slice (heads, zero, turned_size, last)
  rest = Slice (heads, turned_size, size, last)
  )";
  text += node.HasInput(3) ? "cosines = Gather (cos_cache, position_ids) "
                             "sines = Gather (sin_cache, position_ids) "
                           : "cosines = Identity (cos_cache) sines = Identity (sin_cache) ";
  text += R"(
  used_cosines = Slice (cosines, zero, half, last)
  used_sines = Slice (sines, zero, half, last)
  cosine = Unsqueeze (used_cosines, two)
  sine = Unsqueeze (used_sines, two)
  )";
  text += is_interleaved ? R"(
  one = Constant <value: tensor = int64[1] {1}> ()
  first = Slice (turning, zero, turned_size, last, two)
  second = Slice (turning, one, turned_size, last, two)
  )"
                         : R"(
  first = Slice (turning, zero, half, last)
  second = Slice (turning, half, turned_size, last)
  )";
  text += R"(
  first_by_cosine = Mul (first, cosine)
  second_by_sine = Mul (second, sine)
  first_by_sine = Mul (first, sine)
  second_by_cosine = Mul (second, cosine)
  real = Sub (first_by_cosine, second_by_sine)
  imaginary = Add (first_by_sine, second_by_cosine)
  )";
  text += is_interleaved ? R"(
  reals = Unsqueeze (real, last)
  imaginaries = Unsqueeze (imaginary, last)
  pairs = Concat <axis = -1> (reals, imaginaries)
  turned_shape = Shape (turning)
  turned = Reshape (pairs, turned_shape)
  )"
                         : "turned = Concat <axis = -1> (real, imaginary) ";
  text += "whole = Concat <axis = -1> (turned, rest) X_shape = Shape (X) ";
  text +=
      is_packed ? "Y = Reshape (whole, X_shape) " : "Y = Transpose <perm = [0, 2, 1, 3]> (whole) ";
  return text + "}";
}

}  // namespace opgraft::model
