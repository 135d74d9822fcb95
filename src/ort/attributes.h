// The attributes of a node, read where a kernel is made or where shapes are inferred.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "ort/calls.h"
#include "ort/runtime.h"

namespace opgraft::ort {

/// Each Read leaves what is there untouched, and returns false, where the attribute is missing or
/// of another kind. An empty list may be one of another kind: the runtime does not tell.
class Attributes {
 public:
  virtual ~Attributes() = default;
  /// Whether there is one, of any kind.
  virtual bool Has(const char* name) const = 0;
  virtual bool Read(const char* name, std::int64_t* integer) const = 0;
  virtual bool Read(const char* name, float* number) const = 0;
  virtual bool Read(const char* name, std::string* text) const = 0;
  virtual bool Read(const char* name, std::vector<std::int64_t>* integers) const = 0;
  virtual bool Read(const char* name, std::vector<float>* numbers) const = 0;
  virtual bool Read(const char* name, std::vector<std::string>* texts) const = 0;
  /// The caller releases the value.
  virtual bool Read(const char* name, OrtValue** tensor) const = 0;
};

/// What the kernel's node says.
class KernelAttributes final : public Attributes {
 public:
  KernelAttributes(const Runtime& runtime, const OrtKernelInfo* info)
      : runtime_(runtime), api_(runtime.api), info_(info) {}

  bool Has(const char* name) const override;
  bool Read(const char* name, std::int64_t* integer) const override;
  bool Read(const char* name, float* number) const override;
  bool Read(const char* name, std::string* text) const override;
  bool Read(const char* name, std::vector<std::int64_t>* integers) const override;
  bool Read(const char* name, std::vector<float>* numbers) const override;
  bool Read(const char* name, std::vector<std::string>* texts) const override;
  bool Read(const char* name, OrtValue** tensor) const override;

  /// A ModelError where an attribute of these names is there and not of the kind that its reader
  /// expects, which would take it for absent.
  Status CheckTexts(const std::string& who, std::initializer_list<const char*> names) const;
  Status CheckIntegers(const std::string& who, std::initializer_list<const char*> names) const;

 private:
  const Runtime runtime_;
  const OrtApi* const api_;
  const OrtKernelInfo* const info_;
};

/// What the node says whose shapes are being inferred. Tensors and lists of texts cannot be read.
class InferenceAttributes final : public Attributes {
 public:
  InferenceAttributes(const Runtime& runtime, const OrtShapeInferContext* context)
      : runtime_(runtime), api_(runtime.api), context_(context) {}

  bool Has(const char* name) const override;
  bool Read(const char* name, std::int64_t* integer) const override;
  bool Read(const char* name, float* number) const override;
  bool Read(const char* name, std::string* text) const override;
  bool Read(const char* name, std::vector<std::int64_t>* integers) const override;
  bool Read(const char* name, std::vector<float>* numbers) const override;
  bool Read(const char* name, std::vector<std::string>* texts) const override;
  bool Read(const char* name, OrtValue** tensor) const override;

 private:
  template <class T>
  bool ReadOne(const char* name, int type, T* value) const;
  template <class T>
  bool ReadList(const char* name, int type, std::vector<T>* values) const;

  const Runtime runtime_;
  const OrtApi* const api_;
  const OrtShapeInferContext* const context_;
};

}  // namespace opgraft::ort
