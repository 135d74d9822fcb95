// The attributes that docs/format.md describes.
#include "runtime/pyop_spec.h"

namespace opgraft::ort {

Status ReadSpec(const Attributes& attributes, pyop::Spec* spec) {
  std::int64_t format = 0;
  attributes.Read(pyop::attribute::kFormat, &format);
  attributes.Read(pyop::attribute::kModule, &spec->module);
  attributes.Read(pyop::attribute::kClassName, &spec->class_name);
  attributes.Read(pyop::attribute::kCompute, &spec->compute);
  attributes.Read(pyop::attribute::kOutputTypes, &spec->output_types);
  attributes.Read(pyop::attribute::kInputPlaces, &spec->input_places);
  attributes.Read(pyop::attribute::kArguments, &spec->arguments);
  spec->on_gpu = format == pyop::kGpuFormat;
  if (format == pyop::kDeclaredFormat || spec->on_gpu) {
    attributes.Read(pyop::attribute::kOperator, &spec->operator_name);
    attributes.Read(pyop::attribute::kOutputPlaces, &spec->output_places);
    if (!spec->IsDeclared())
      return Status::Model(spec->Who() + ": attribute 'operator' is missing");
  } else {
    attributes.Read(pyop::attribute::kInputTypes, &spec->input_types);
  }
  std::vector<std::int64_t> shapes;
  attributes.Read(pyop::attribute::kOutputShapes, &shapes);
  if (format < pyop::kFormat || format > pyop::kGpuFormat) {
    return Status::Model(spec->Who() + ": the node is of format " + std::to_string(format) +
                         ", this Opgraft reads formats " + std::to_string(pyop::kFormat) + " to " +
                         std::to_string(pyop::kGpuFormat) +
                         (format > pyop::kGpuFormat
                              ? "; install a newer one"
                              : "; prepare the model again from its original"));
  }
  if (!pyop::Unpack(shapes, &spec->output_shapes)) {
    return Status::Model(spec->Who() +
                         ": attribute 'output_shapes' is not a list of ranks, each followed by its "
                         "dimensions");
  }
  return Status();
}

}  // namespace opgraft::ort
