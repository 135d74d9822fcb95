// Finds and loads the library, and checks that it is new enough.
#include "aten/libtorch.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>

#include "core/platform.h"

namespace opgraft::aten {
namespace {

constexpr char kCpuLibrary[] = "libtorch_cpu.so";

constexpr char kHowToGet[] =
    ", and ATen nodes run in libtorch. Fix: install torch 2.10 or newer (pip install torch), or "
    "set OPGRAFT_LIBTORCH to libtorch_cpu.so or to the folder that holds it";

/// Finds the library that OPGRAFT_LIBTORCH names.
Status FindNamed(const std::string& named, std::string* path) {
  for (const char* const inside : {"", "/libtorch_cpu.so", "/lib/libtorch_cpu.so"}) {
    *path = named + inside;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(*path, ignored)) return Status();
  }
  return Status::Unavailable("OPGRAFT_LIBTORCH is '" + named + "', where there is no " +
                             kCpuLibrary + kHowToGet);
}

std::string VersionText(std::uint64_t version) {
  return std::to_string(version >> 56U) + "." + std::to_string((version >> 48U) & 0xffU);
}

}  // namespace

void* Libtorch::FindFunction(const char* name) const { return platform::FindSymbol(handle_, name); }

std::int32_t Libtorch::FindNumber(const char* kind, const std::string& name) const {
  if (find_number != nullptr) return find_number(kind, name);
  const std::string symbol = "aoti_torch_" + std::string(kind) + "_" + name;
  const auto get = reinterpret_cast<std::int32_t (*)()>(FindFunction(symbol.c_str()));
  return get != nullptr ? get() : -1;
}

std::string Libtorch::Name() const { return "torch " + VersionText(version); }

std::string Libtorch::TakeErrorText() const {
  const char* const text = exception_get_what_without_backtrace != nullptr
                               ? exception_get_what_without_backtrace()
                               : nullptr;
  return text != nullptr ? text : Name() + " gives no reason; it may have printed one to stderr";
}

Value Libtorch::NewBox(Value content) const {
  Value* box = nullptr;
  if (new_stable_ivalue == nullptr) {
    box = new Value;  // what versions before 2.13 expect, and delete
  } else if (new_stable_ivalue(&box) != 0 || box == nullptr) {
    throw std::bad_alloc();
  }
  *box = content;
  return ToValue(box);
}

void Libtorch::DeleteBox(Value box) const {
  auto* const pointer = FromValue<Value*>(box);
  if (delete_stable_ivalue == nullptr) {
    delete pointer;
  } else {
    (void)delete_stable_ivalue(pointer);
  }
}

Status LoadLibtorch(const std::string& path, Libtorch* libtorch) {
  Libtorch made;
  Status status = platform::LoadLibrary(path, /*is_global=*/false, &made.handle_);
  if (!status.ok()) return Status::Unavailable(status.message() + kHowToGet);
  made.path = path;
  std::string missing;
  const auto find = [&](const char* name, auto* function, bool is_needed = true) {
    void* const found = made.FindFunction(name);
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(found);
    if (found == nullptr && is_needed && missing.empty()) missing = name;
  };
  find("aoti_torch_abi_version", &made.abi_version);
  if (made.abi_version != nullptr) made.version = made.abi_version();
  find("torch_call_dispatcher", &made.call_dispatcher);
  find("torch_new_list_reserve_size", &made.new_list_reserve_size);
  find("torch_list_push_back", &made.list_push_back);
  find("torch_list_size", &made.list_size);
  find("torch_list_get_item", &made.list_get_item);
  find("torch_delete_list", &made.delete_list);
  find("torch_new_string_handle", &made.new_string_handle);
  find("torch_delete_string", &made.delete_string);
  find("torch_string_c_str", &made.string_c_str);
  find("aoti_torch_create_tensor_from_blob", &made.create_tensor_from_blob);
  find("aoti_torch_empty_strided", &made.empty_strided);
  find("aoti_torch_new_tensor_handle", &made.new_tensor_handle);
  find("aoti_torch_scalar_to_tensor_bool", &made.scalar_to_tensor_bool);
  find("aoti_torch_scalar_to_tensor_int64", &made.scalar_to_tensor_int64);
  find("aoti_torch_scalar_to_tensor_float32", &made.scalar_to_tensor_float32);
  find("aoti_torch_scalar_to_tensor_float64", &made.scalar_to_tensor_float64);
  find("aoti_torch_delete_tensor_object", &made.delete_tensor_object);
  find("aoti_torch_clone", &made.clone);
  find("aoti_torch_get_data_ptr", &made.get_data_ptr);
  find("aoti_torch_get_dim", &made.get_dim);
  find("aoti_torch_get_sizes", &made.get_sizes);
  find("aoti_torch_get_strides", &made.get_strides);
  find("aoti_torch_get_dtype", &made.get_dtype);
  find("aoti_torch_get_layout", &made.get_layout);
  find("aoti_torch_get_device_type", &made.get_device_type);
  find("aoti_torch_is_contiguous", &made.is_contiguous);
  find("aoti_torch_is_defined", &made.is_defined);
  find("aoti_torch_copy_", &made.copy_);
  find("aoti_torch_grad_mode_is_enabled", &made.grad_mode_is_enabled);
  find("aoti_torch_grad_mode_set_enabled", &made.grad_mode_set_enabled);
  find("torch_exception_get_what_without_backtrace", &made.exception_get_what_without_backtrace,
       false);
  find("torch_new_stable_ivalue", &made.new_stable_ivalue, false);
  find("torch_delete_stable_ivalue", &made.delete_stable_ivalue, false);
  if (!missing.empty()) {
    return Status::Unavailable(path +
                               (made.version == 0
                                    ? " is not libtorch, or is too old"
                                    : " belongs to " + made.Name() + ", which is too old") +
                               ": it has no " + missing + kHowToGet);
  }
  made.cpu = made.FindNumber("device_type", "cpu");
  made.strided = made.FindNumber("layout", "strided");
  *libtorch = std::move(made);
  return Status();
}

Status FindLibtorch(const FindInstalled& find, std::string* path) {
  *path = platform::PathOfLoaded(kCpuLibrary);
  if (!path->empty()) return Status();
  const char* const named = std::getenv("OPGRAFT_LIBTORCH");
  if (named != nullptr && *named != '\0') return FindNamed(named, path);
  Status status = find != nullptr
                      ? find(path)
                      : Status::Unavailable(std::string(kCpuLibrary) + " is not loaded");
  return status.ok() ? status : Status::Unavailable(status.message() + kHowToGet);
}

Status GetLibtorch(const FindInstalled& find, const Libtorch** libtorch) {
  static std::mutex mutex;
  static const Libtorch* ready = nullptr;
  const std::lock_guard lock(mutex);
  *libtorch = ready;
  if (ready != nullptr) return Status();
  std::string path;
  Status status = FindLibtorch(find, &path);
  Libtorch loaded;
  if (status.ok()) status = LoadLibtorch(path, &loaded);
  if (status.ok()) *libtorch = ready = new Libtorch(std::move(loaded));  // lives as the library
  return status;
}

}  // namespace opgraft::aten
