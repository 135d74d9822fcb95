// Writes and reads what more than one message has.
#include "workers/message.h"

#include "base/element_type.h"

namespace opgraft::workers {

void WriteSpec(const pyop::Spec& spec, Writer* writer) {
  for (const std::string* text : {&spec.node, &spec.module, &spec.operator_name, &spec.class_name,
                                  &spec.compute, &spec.arguments}) {
    writer->Text(*text);
  }
  for (const auto* numbers :
       {&spec.input_types, &spec.output_types, &spec.input_places, &spec.output_places}) {
    writer->Numbers(*numbers);
  }
  writer->Numbers(pyop::Pack(spec.output_shapes));
}

void ReadSpec(Reader* reader, pyop::Spec* spec) {
  for (std::string* text : {&spec->node, &spec->module, &spec->operator_name, &spec->class_name,
                            &spec->compute, &spec->arguments}) {
    *text = reader->Text();
  }
  for (auto* numbers :
       {&spec->input_types, &spec->output_types, &spec->input_places, &spec->output_places}) {
    *numbers = reader->Numbers();
  }
  static_cast<void>(pyop::Unpack(reader->Numbers(), &spec->output_shapes));
}

bool TensorSize(std::int64_t element_type, std::span<const std::int64_t> shape, std::size_t* size) {
  constexpr std::size_t kMostDimensions = 64;
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
  const ElementType* const type = FindElementType(element_type);
  if (type == nullptr || !type->is_carried || shape.size() > kMostDimensions) return false;
  std::uint64_t elements = 1;
  for (const std::int64_t length : shape) {
    if (length < 0 ||
        __builtin_mul_overflow(elements, static_cast<std::uint64_t>(length), &elements)) {
      return false;
    }
  }
  if (elements > kLargest / 64) return false;
  *size = element_type == kString ? elements : type->PackedSize(elements);
  return *size <= kLargest;
}

}  // namespace opgraft::workers
