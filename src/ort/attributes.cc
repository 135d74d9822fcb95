// The two ways in which ONNX Runtime hands attributes over.
#include "ort/attributes.h"

#include <utility>

namespace opgraft::ort {
namespace {

// Values of OrtOpAttrType.
constexpr int kInteger = 1;
constexpr int kIntegers = 2;
constexpr int kString = 5;

bool Drop(const OrtApi* api, OrtStatus* status) { return FromRuntime(api, status).ok(); }

}  // namespace

void KernelAttributes::Read(const char* name, std::int64_t* integer) const {
  Drop(api_, KernelInfoGetAttribute_int64(api_, info_, name, integer));
}

void KernelAttributes::Read(const char* name, std::string* text) const {
  std::string read;
  const auto get = [&](char* out, std::size_t* size) {
    return KernelInfoGetAttribute_string(api_, info_, name, out, size);
  };
  if (ReadText(api_, get, &read).ok()) *text = std::move(read);
}

void KernelAttributes::Read(const char* name, std::vector<std::int64_t>* integers) const {
  std::size_t count = 0;
  if (!Drop(api_, KernelInfoGetAttributeArray_int64(api_, info_, name, nullptr, &count))) return;
  integers->resize(count);
  Drop(api_, KernelInfoGetAttributeArray_int64(api_, info_, name, integers->data(), &count));
}

void InferenceAttributes::Read(const char* name, std::int64_t* integer) const {
  const OrtOpAttr* attribute = nullptr;
  if (!Drop(api_, ShapeInferContext_GetAttribute(api_, context_, name, &attribute))) return;
  std::int64_t read = 0;
  std::size_t size = 0;
  if (Drop(api_, ReadOpAttr(api_, attribute, kInteger, &read, sizeof(read), &size)))
    *integer = read;
}

void InferenceAttributes::Read(const char* name, std::string* text) const {
  const OrtOpAttr* attribute = nullptr;
  if (!Drop(api_, ShapeInferContext_GetAttribute(api_, context_, name, &attribute))) return;
  std::size_t size = 0;  // without a terminating zero, which older runtimes add
  Drop(api_, ReadOpAttr(api_, attribute, kString, nullptr, 0, &size));
  std::string read(size, '\0');
  if (!Drop(api_, ReadOpAttr(api_, attribute, kString, read.data(), read.size(), &size))) return;
  *text = std::move(read);
}

void InferenceAttributes::Read(const char* name, std::vector<std::int64_t>* integers) const {
  const OrtOpAttr* attribute = nullptr;
  if (!Drop(api_, ShapeInferContext_GetAttribute(api_, context_, name, &attribute))) return;
  std::size_t size = 0;  // in bytes
  Drop(api_, ReadOpAttr(api_, attribute, kIntegers, nullptr, 0, &size));
  std::vector<std::int64_t> read(size / sizeof(std::int64_t));
  if (Drop(api_, ReadOpAttr(api_, attribute, kIntegers, read.data(), size, &size))) {
    *integers = std::move(read);
  }
}

Status ReadSpec(const Attributes& attributes, pyop::Spec* spec) {
  std::int64_t format = 0;
  attributes.Read(pyop::attribute::kFormat, &format);
  attributes.Read(pyop::attribute::kModule, &spec->module);
  attributes.Read(pyop::attribute::kClassName, &spec->class_name);
  attributes.Read(pyop::attribute::kCompute, &spec->compute);
  attributes.Read(pyop::attribute::kOutputTypes, &spec->output_types);
  attributes.Read(pyop::attribute::kInputPlaces, &spec->input_places);
  attributes.Read(pyop::attribute::kArguments, &spec->arguments);
  if (format == pyop::kDeclaredFormat) {
    attributes.Read(pyop::attribute::kOperator, &spec->operator_name);
    attributes.Read(pyop::attribute::kOutputPlaces, &spec->output_places);
    if (!spec->IsDeclared())
      return Status::Model(spec->Who() + ": attribute 'operator' is missing");
  } else {
    attributes.Read(pyop::attribute::kInputTypes, &spec->input_types);
  }
  std::vector<std::int64_t> shapes;
  attributes.Read(pyop::attribute::kOutputShapes, &shapes);
  if (format != pyop::kFormat && format != pyop::kDeclaredFormat) {
    return Status::Model(spec->Who() + ": the node is of format " + std::to_string(format) +
                         ", this Opgraft reads formats " + std::to_string(pyop::kFormat) + " to " +
                         std::to_string(pyop::kDeclaredFormat) +
                         (format > pyop::kDeclaredFormat
                              ? "; install a newer one"
                              : "; prepare the model again from its original"));
  }
  if (!pyop::Unpack(shapes, &spec->output_shapes)) {
    return Status::Model(spec->Who() +
                         ": attribute 'output_shapes' is no list of ranks, each "
                         "followed by its dimensions");
  }
  return Status();
}

}  // namespace opgraft::ort
