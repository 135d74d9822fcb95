// Reads the attributes of a node, when its kernel is created or its shapes are inferred.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "adapter/calls.h"
#include "adapter/runtime.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"

namespace opgraft::ort {

/// If the attribute is missing or of another kind, each Read returns false and leaves its argument
/// untouched. An empty list may be an attribute of another kind: the runtime does not distinguish
/// them.
class Attributes {
 public:
  virtual ~Attributes() = default;
  /// Whether the node has the attribute, of any kind.
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

/// The attributes of a kernel's node.
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

  /// Return a ModelError if the node has an attribute of these names that is not of the expected
  /// kind: its reader would take it for absent.
  Status CheckTexts(const std::string& who, std::initializer_list<const char*> names) const;
  Status CheckIntegers(const std::string& who, std::initializer_list<const char*> names) const;

 private:
  const Runtime runtime_;
  const OrtApi* const api_;
  const OrtKernelInfo* const info_;
};

/// The attributes of a node whose shapes are being inferred. Tensors and lists of strings cannot be
/// read here.
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
