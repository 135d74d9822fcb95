// libtorch's stable C functions, looked up in the library when it is needed; no header of torch is
// used.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "opgraft/status.h"

namespace opgraft::aten {

struct TensorObject;
struct ListObject;
struct StringObject;
/// A reference to a tensor of libtorch, which must be deleted once; the dispatcher takes over the
/// references that it is given.
using Tensor = TensorObject*;
using List = ListObject*;
using String = StringObject*;
/// An argument or a result of the dispatcher: the bits of a number, or a handle.
using Value = std::uint64_t;
/// Convert a handle to a value, and back.
template <class Handle>
Value ToValue(Handle handle) {
  return std::bit_cast<Value>(handle);
}
template <class Handle>
Handle FromValue(Value value) {
  return std::bit_cast<Handle>(value);
}
/// What the functions return: 0 on success.
using Failure = std::int32_t;

/// The oldest version that has all required functions.
inline constexpr const char* kOldestLibtorch = "2.10";

/// The functions, named as in libtorch's headers without the prefixes "torch_" and "aoti_torch_".
/// Any thread may call them.
struct Libtorch {
  std::string path;           ///< of the library
  std::uint64_t version = 0;  ///< major << 56 | minor << 48

  std::uint64_t (*abi_version)();
  Failure (*call_dispatcher)(const char* name, const char* overload, Value* stack,
                             std::uint64_t build_version);

  Failure (*new_list_reserve_size)(std::size_t size, List* list);
  Failure (*list_push_back)(List list, Value element);
  Failure (*list_size)(List list, std::size_t* size);
  Failure (*list_get_item)(List list, std::size_t index, Value* element);
  Failure (*delete_list)(List list);
  Failure (*new_string_handle)(const char* data, std::size_t length, String* string);
  Failure (*delete_string)(String string);
  Failure (*string_c_str)(String string, const char** data);

  Failure (*create_tensor_from_blob)(void* data, std::int64_t rank, const std::int64_t* sizes,
                                     const std::int64_t* strides, std::int64_t storage_offset,
                                     std::int32_t dtype, std::int32_t device_type,
                                     std::int32_t device_index, Tensor* tensor);
  Failure (*empty_strided)(std::int64_t rank, const std::int64_t* sizes,
                           const std::int64_t* strides, std::int32_t dtype,
                           std::int32_t device_type, std::int32_t device_index, Tensor* tensor);
  Failure (*new_tensor_handle)(Tensor original, Tensor* tensor);
  Failure (*scalar_to_tensor_bool)(bool value, Tensor* tensor);
  Failure (*scalar_to_tensor_int64)(std::int64_t value, Tensor* tensor);
  Failure (*scalar_to_tensor_float32)(float value, Tensor* tensor);
  Failure (*scalar_to_tensor_float64)(double value, Tensor* tensor);
  Failure (*delete_tensor_object)(Tensor tensor);
  Failure (*clone)(Tensor tensor, Tensor* copy);
  Failure (*get_data_ptr)(Tensor tensor, void** data);
  Failure (*get_dim)(Tensor tensor, std::int64_t* rank);
  Failure (*get_sizes)(Tensor tensor, std::int64_t** sizes);
  Failure (*get_strides)(Tensor tensor, std::int64_t** strides);
  Failure (*get_dtype)(Tensor tensor, std::int32_t* dtype);
  Failure (*get_layout)(Tensor tensor, std::int32_t* layout);
  Failure (*get_device_type)(Tensor tensor, std::int32_t* type);
  Failure (*is_contiguous)(Tensor tensor, bool* is_contiguous);
  Failure (*is_defined)(Tensor tensor, bool* is_defined);
  Failure (*copy_)(Tensor self, Tensor source, std::int32_t non_blocking);

  bool (*grad_mode_is_enabled)();
  void (*grad_mode_set_enabled)(bool is_enabled);

  // Since 2.13; nullptr before.
  const char* (*exception_get_what_without_backtrace)();
  Failure (*new_stable_ivalue)(Value** box);
  Failure (*delete_stable_ivalue)(Value* box);

  std::int32_t cpu = 0;      ///< libtorch's number of the device type CPU
  std::int32_t strided = 0;  ///< libtorch's number of the layout "strided"

  /// Returns a function that not every version has, or nullptr.
  void* FindFunction(const char* name) const;

  /// Returns the number of a dtype, layout, memory format or device type by its name in Python,
  /// such as "float32", "strided", "channels_last"; -1 if there is none.
  std::int32_t FindNumber(const char* kind, const std::string& name) const;
  /// Tests set this to replace FindNumber.
  std::int32_t (*find_number)(const char* kind, const std::string& name) = nullptr;

  /// Such as "torch 2.13".
  std::string Name() const;

  /// Whether a failed call provides an error message.
  bool SaysWhy() const { return exception_get_what_without_backtrace != nullptr; }

  /// Returns the message of the call that has just failed in this thread.
  std::string TakeErrorText() const;

  /// Allocates the box of an optional argument that is present; the dispatcher frees it.
  Value NewBox(Value content) const;
  void DeleteBox(Value box) const;

 private:
  friend Status LoadLibtorch(const std::string&, Libtorch*);
  void* handle_ = nullptr;
};

/// Finds where libtorch_cpu.so is installed; returns an UnavailableError if it is not.
using FindInstalled = std::function<Status(std::string* path)>;

/// Finds the libtorch that GetLibtorch would take, without loading it.
Status FindLibtorch(const FindInstalled& find, std::string* path);

/// Returns the functions of the one libtorch of this process: the one that is loaded already, else
/// the one that OPGRAFT_LIBTORCH names (the file or the folder that holds it), else the one that
/// `find` finds. An UnavailableError says what is missing, and a later call tries again. Any thread
/// may call it.
Status GetLibtorch(const FindInstalled& find, const Libtorch** libtorch);

/// Fills a table from a library; an UnavailableError if it lacks a function.
Status LoadLibtorch(const std::string& path, Libtorch* libtorch);

}  // namespace opgraft::aten
