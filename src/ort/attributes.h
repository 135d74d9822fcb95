// The attributes of a node, read where a kernel is made or where shapes are inferred.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/calls.h"
#include "pyop/spec.h"

namespace opgraft::ort {

/// Each Read leaves what is there untouched where the attribute is missing or of another kind.
class Attributes {
 public:
  virtual ~Attributes() = default;
  virtual void Read(const char* name, std::int64_t* integer) const = 0;
  virtual void Read(const char* name, std::string* text) const = 0;
  virtual void Read(const char* name, std::vector<std::int64_t>* integers) const = 0;
};

/// What the kernel's node says.
class KernelAttributes final : public Attributes {
 public:
  KernelAttributes(const OrtApi* api, const OrtKernelInfo* info) : api_(api), info_(info) {}

  void Read(const char* name, std::int64_t* integer) const override;
  void Read(const char* name, std::string* text) const override;
  void Read(const char* name, std::vector<std::int64_t>* integers) const override;

 private:
  const OrtApi* const api_;
  const OrtKernelInfo* const info_;
};

/// What the node says whose shapes are being inferred; only for runtimes that InfersShapes.
class InferenceAttributes final : public Attributes {
 public:
  InferenceAttributes(const OrtApi* api, const OrtShapeInferContext* context)
      : api_(api), context_(context) {}

  void Read(const char* name, std::int64_t* integer) const override;
  void Read(const char* name, std::string* text) const override;
  void Read(const char* name, std::vector<std::int64_t>* integers) const override;

 private:
  const OrtApi* const api_;
  const OrtShapeInferContext* const context_;
};

/// Reads a canonical node, all but its name. A ModelError where it is of an unknown format.
Status ReadSpec(const Attributes& attributes, pyop::Spec* spec);

}  // namespace opgraft::ort
