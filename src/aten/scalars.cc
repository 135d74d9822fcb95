// The few operators that libtorch has a C function for, and a search among overloads for the rest.
#include "aten/scalars.h"

#include <bit>
#include <utility>
#include <vector>

#include "aten/operators.h"

namespace opgraft::aten {
namespace {

// What stands for a type in the C function's declaration.
struct Number {};       // double
struct MaybeNumber {};  // const double*, nullptr for none
struct MaybeTensor {};  // const Tensor*, likewise
struct Flag {};         // std::int32_t
struct Text {};         // const char*

Tensor Convert(const Libtorch&, Value value, Tensor) { return FromValue<Tensor>(value); }
std::int64_t Convert(const Libtorch&, Value value, std::int64_t) {
  return static_cast<std::int64_t>(value);
}
double Convert(const Libtorch&, Value value, Number) { return std::bit_cast<double>(value); }
std::int32_t Convert(const Libtorch&, Value value, Flag) { return value != 0 ? 1 : 0; }
// What is optional comes in a box, and a box is a pointer to its content.
double* Convert(const Libtorch&, Value value, MaybeNumber) { return FromValue<double*>(value); }
Tensor* Convert(const Libtorch&, Value value, MaybeTensor) { return FromValue<Tensor*>(value); }
const char* Convert(const Libtorch& libtorch, Value value, Text) {
  const char* text = "";
  (void)libtorch.string_c_str(FromValue<String>(value), &text);
  return text;
}

template <class... Types, std::size_t... Places>
Failure CallAt(const Libtorch& libtorch, void* function, const Value* values, Tensor* result,
               std::index_sequence<Places...>) {
  using Function = Failure (*)(decltype(Convert(libtorch, 0, Types()))..., Tensor*);
  return reinterpret_cast<Function>(function)(Convert(libtorch, values[Places], Types())...,
                                              result);
}

/// Calls a function whose arguments are of these types, those of the schema in order.
template <class... Types>
Failure CallAs(const Libtorch& libtorch, void* function, const Value* values, Tensor* result) {
  return CallAt<Types...>(libtorch, function, values, result,
                          std::make_index_sequence<sizeof...(Types)>());
}

/// constant_pad_nd(Tensor self, SymInt[] pad, Scalar value), by the function for pad.
Failure CallPad(const Libtorch& libtorch, void* function, const Value* values, Tensor* result) {
  const auto list = FromValue<List>(values[1]);
  std::size_t size = 0;
  (void)libtorch.list_size(list, &size);
  std::vector<std::int64_t> sizes(size);
  for (std::size_t i = 0; i < size; ++i) {
    Value item = 0;
    (void)libtorch.list_get_item(list, i, &item);
    sizes[i] = static_cast<std::int64_t>(item);
  }
  auto number = std::bit_cast<double>(values[2]);
  using Function =
      Failure (*)(Tensor, const std::int64_t*, std::int64_t, const char*, double*, Tensor*);
  return reinterpret_cast<Function>(function)(FromValue<Tensor>(values[0]), sizes.data(),
                                              static_cast<std::int64_t>(size), "constant", &number,
                                              result);
}

struct Row {
  std::string_view name;
  std::string_view overload;
  const char* symbol;  // behind "aoti_torch_cpu_" or "aoti_torch_cuda_"
  Failure (*call)(const Libtorch&, void*, const Value*, Tensor*);
};

constexpr Row kRows[] = {
    {"histc", "", "histc", CallAs<Tensor, std::int64_t, Number, Number>},
    {"constant_pad_nd", "", "pad", CallPad},
    {"add", "Tensor", "add_Tensor", CallAs<Tensor, Tensor, Number>},
    {"add", "Scalar", "add_Scalar", CallAs<Tensor, Number, Number>},
    {"addmv", "", "addmv", CallAs<Tensor, Tensor, Tensor, Number, Number>},
    {"addbmm", "", "addbmm", CallAs<Tensor, Tensor, Tensor, Number, Number>},
    {"segment_reduce", "", "segment_reduce",
     CallAs<Tensor, Text, MaybeTensor, MaybeTensor, MaybeTensor, std::int64_t, Flag, MaybeNumber>},
};

/// Whether the other takes tensors where this one takes Scalars, and is the same otherwise. The
/// names say so too, "element" and "elements" at the most: trapezoid.x takes the places of samples
/// where trapezoid.dx takes a step.
bool TakesTensors(const Schema& schema, const Schema& other) {
  if (schema.parameters.size() != other.parameters.size()) return false;
  for (std::size_t i = 0; i < schema.parameters.size(); ++i) {
    const Type& type = schema.parameters[i].type;
    Type expected = type;
    if (type.kind == Kind::kScalar && !type.is_list) expected.kind = Kind::kTensor;
    const Parameter& parameter = other.parameters[i];
    const std::string name(schema.parameters[i].name);
    if (parameter.name != name && parameter.name != name + "s") return false;
    if (parameter.type.Text() != expected.Text()) return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> FindTensorOverload(const Schema& schema) {
  for (const Operator& one : FindOperators(schema.name)) {
    if (one.schema.overload != schema.overload && TakesTensors(schema, one.schema)) {
      return std::string(one.schema.overload);
    }
  }
  return std::nullopt;
}

ScalarFunction FindScalarFunction(const Libtorch& libtorch, const CudaPart* gpu,
                                  const Schema& schema) {
  for (const Row& row : kRows) {
    if (row.name != schema.name || row.overload != schema.overload) continue;
    const std::string device = gpu != nullptr ? "cuda_" : "cpu_";
    const std::string symbol = "aoti_torch_" + device + row.symbol;
    return {
        gpu != nullptr ? gpu->FindFunction(symbol.c_str()) : libtorch.FindFunction(symbol.c_str()),
        row.call};
  }
  return {};
}

}  // namespace opgraft::aten
