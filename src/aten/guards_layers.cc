// Checks for the kernels of layers, which take sizes from one tensor and read the others by them.
#include <algorithm>

#include "aten/guard_functions.h"

namespace opgraft::aten {
namespace {

bool IsReal(const TensorArgument& tensor) {
  const int type = tensor.element_type;
  return !tensor.is_complex && (type == 1 || type == 10 || type == 11 || type == 16);
}

/// Whether a size broadcasts to the other: it is the same, or 1.
bool Broadcasts(std::int64_t size, std::int64_t other) { return size == other || size == 1; }

std::string Got(const TensorArgument& query, const TensorArgument& key,
                const TensorArgument& value) {
  return ", got query " + query.Text() + ", key " + key.Text() + ", value " + value.Text();
}

/// A mask must have, from the end, the sizes of each query's weights, or 1 in their place.
std::string CheckMask(const NamedArguments& arguments, const TensorArgument& query,
                      const TensorArgument& key) {
  const std::optional<TensorArgument> mask = arguments.FindTensor("attn_mask");
  if (!mask) return "";
  bool is_good = mask->rank() >= 1 && mask->rank() <= query.rank() &&
                 Broadcasts(mask->SizeFromEnd(1), key.SizeFromEnd(2));
  for (std::size_t i = 2; is_good && i <= mask->rank(); ++i) {
    const std::int64_t size = mask->SizeFromEnd(i);
    is_good = Broadcasts(size, query.SizeFromEnd(i)) ||
              (i > 2 && query.SizeFromEnd(i) == 1 && size == key.SizeFromEnd(i));
  }
  if (is_good) return "";
  return "expected attn_mask of " + std::to_string(query.SizeFromEnd(2)) + " rows of " +
         std::to_string(key.SizeFromEnd(2)) + " for each batch and head, got " + mask->Text();
}

}  // namespace

std::string CheckStatistics(const NamedArguments& arguments) {
  const bool is_training = arguments.FindInteger("training").value_or(0) != 0;
  const bool has_statistics = arguments.Has("running_mean") && arguments.Has("running_var");
  if (!is_training && !has_statistics) {
    return "expected training=true, or running_mean and running_var, got neither";
  }
  const std::optional<TensorArgument> input = arguments.FindTensor("input");
  if (!input) return "";
  const std::int64_t channels = input->shape.size() < 2 ? -1 : input->shape[1];
  for (const char* const name : {"weight", "bias", "running_mean", "running_var"}) {
    const std::optional<TensorArgument> tensor = arguments.FindTensor(name);
    if (!tensor) continue;
    if (tensor->shape.size() != 1 || tensor->shape[0] != channels) {
      return "expected " + std::string(name) + " to have one number for each channel of the input";
    }
  }
  return "";
}

std::string CheckGroups(const NamedArguments& arguments) {
  const std::optional<TensorArgument> input = arguments.FindTensor("input");
  const std::optional<std::int64_t> batch = arguments.FindInteger("N");
  const std::optional<std::int64_t> channels = arguments.FindInteger("C");
  const std::optional<std::int64_t> area = arguments.FindInteger("HxW");
  const std::optional<std::int64_t> groups = arguments.FindInteger("group");
  if (!input || !batch || !channels || !area || !groups) return "";
  std::optional<std::int64_t> product = Product(*batch, *channels);
  if (product) product = Product(*product, *area);
  const auto count = static_cast<std::int64_t>(Count(input->shape));
  if (!product || *product != count || *batch < 0 || *channels < 0 || *area < 0) {
    return "expected N, C and HxW whose product is the input's " + std::to_string(count) +
           " elements, got " + std::to_string(*batch) + ", " + std::to_string(*channels) + ", " +
           std::to_string(*area);
  }
  if (*groups < 1 || *channels % *groups != 0) {
    return "expected a number of groups that divides the " + std::to_string(*channels) +
           " channels, got " + std::to_string(*groups);
  }
  for (const char* const name : {"weight", "bias"}) {
    const std::optional<TensorArgument> tensor = arguments.FindTensor(name);
    if (tensor && (tensor->rank() != 1 || tensor->shape[0] != *channels)) {
      return "expected " + std::string(name) + " to have one number for each of " +
             std::to_string(*channels) + " channels, got " + tensor->Text();
    }
  }
  return "";
}

/// Batch and heads may be broadcast, for which torch takes another path. But torch does not compare
/// the number of keys with the number of values.
std::string CheckAttention(const NamedArguments& arguments) {
  const std::optional<TensorArgument> query = arguments.FindTensor("query");
  const std::optional<TensorArgument> key = arguments.FindTensor("key");
  const std::optional<TensorArgument> value = arguments.FindTensor("value");
  if (!query || !key || !value) return "";
  const std::size_t rank = query->rank();
  if (rank < 2 || key->rank() != rank || value->rank() != rank) {
    return "expected query, key and value of the same rank, 2 or more" + Got(*query, *key, *value);
  }
  if (key->SizeFromEnd(2) != value->SizeFromEnd(2) ||
      query->SizeFromEnd(1) != key->SizeFromEnd(1)) {
    return "expected as many keys as values, and keys of the query's size" +
           Got(*query, *key, *value);
  }
  const bool has_groups = arguments.FindInteger("enable_gqa").value_or(0) != 0;
  for (std::size_t i = 3; i <= rank; ++i) {
    const std::int64_t queries = query->SizeFromEnd(i);
    const std::int64_t keys = key->SizeFromEnd(i);
    const std::int64_t values = value->SizeFromEnd(i);
    const bool is_good =
        has_groups && i == 3
            ? keys > 0 && values > 0 && queries % keys == 0 && queries % values == 0
            : (Broadcasts(keys, queries) || queries == 1) &&
                  (Broadcasts(values, std::max(keys, queries)) || std::max(keys, queries) == 1);
    if (!is_good) {
      return "expected query, key and value of the same batch and heads (with enable_gqa, the "
             "query's heads must be a multiple of theirs)" +
             Got(*query, *key, *value);
    }
  }
  return CheckMask(arguments, *query, *key);
}

std::string CheckFlashAttention(const NamedArguments& arguments) {
  const std::optional<TensorArgument> query = arguments.FindTensor("query");
  const std::optional<TensorArgument> key = arguments.FindTensor("key");
  const std::optional<TensorArgument> value = arguments.FindTensor("value");
  if (!query || !key || !value) return "";
  bool is_good =
      query->rank() == 4 && key->rank() == 4 && std::ranges::equal(key->shape, value->shape);
  for (const TensorArgument* const one : {&*query, &*key, &*value}) {
    is_good = is_good && IsReal(*one) && one->element_type == query->element_type &&
              std::find(one->shape.begin(), one->shape.end(), 0) == one->shape.end();
  }
  for (const std::size_t i : {0, 1, 3}) is_good = is_good && query->shape[i] == key->shape[i];
  if (!is_good) {
    return "expected query, key and value of 4 dimensions (batch, heads, length, size), equal "
           "except for the query's length, and not empty" +
           Got(*query, *key, *value);
  }
  const std::optional<TensorArgument> mask = arguments.FindTensor("attn_mask");
  if (mask && (!IsReal(*mask) || (mask->rank() != 2 && mask->rank() != 4))) {
    return "expected attn_mask of 2 or 4 dimensions and a floating-point type, got " + mask->Text();
  }
  return CheckMask(arguments, *query, *key);
}

/// mask_type 0 is a mask by row and column, 1 by batch and column, 2 by element.
std::string CheckMaskedSoftmax(const NamedArguments& arguments) {
  const std::optional<TensorArgument> self = arguments.FindTensor("self");
  const std::optional<TensorArgument> mask = arguments.FindTensor("mask");
  if (!self || !mask) return "";
  const auto rank = static_cast<std::int64_t>(self->rank());
  const std::optional<std::int64_t> dimension = arguments.FindInteger("dim");
  if (dimension && (*dimension < -rank || *dimension >= rank)) {
    return "expected dim to be one of the input's " + std::to_string(rank) + " dimensions, got " +
           std::to_string(*dimension);
  }
  const std::int64_t type = arguments.FindInteger("mask_type").value_or(2);
  const std::int64_t columns = self->SizeFromEnd(1);
  bool is_good = type == 2 && rank > 0 && std::ranges::equal(self->shape, mask->shape);
  if (type == 0 || type == 1) {
    const bool is_last = !dimension || *dimension == rank - 1 || *dimension == -1;
    is_good = rank == 4 && mask->rank() == 2 && is_last && self->shape[2] == columns &&
              mask->shape[0] == (type == 0 ? columns : self->shape[0]) && mask->shape[1] == columns;
  }
  if (is_good) return "";
  return "expected mask_type 2 with a mask of the input's shape, or mask_type 0 or 1 with a mask "
         "of shape [columns, columns] or [batch, columns], an input of 4 dimensions and dim the "
         "last, got mask_type " +
         std::to_string(type) + ", " + self->Text() + " and " + mask->Text();
}

}  // namespace opgraft::aten
