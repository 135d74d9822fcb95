// The DLPack protocol, version 1: the layout of tensors that libraries hand to each other, and the
// table of C functions that a library's tensor type offers as `__dlpack_c_exchange_api__`.
#pragma once

#include <cstdint>

namespace opgraft::dlpack {

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint32_t kMinorVersion = 3;
inline constexpr char kExchangeCapsule[] = "dlpack_exchange_api";

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

struct Device {
  std::int32_t type;
  std::int32_t index;
};

struct DataType {
  std::uint8_t code;  ///< internal::DlpackCode
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  DataType type;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements
  std::uint64_t byte_offset;
};

/// A tensor and the function that releases it.
struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

/// The struct from before DLPack had versions, which all consumers accept in a capsule.
struct UnversionedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(UnversionedTensor*);
};

/// The names of the capsules that hold these. A consumer that takes ownership renames the capsule.
inline constexpr char kCapsule[] = "dltensor_versioned";
inline constexpr char kUnversionedCapsule[] = "dltensor";

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;  ///< the table of an older major version, or nullptr
};

/// All functions need the GIL and return 0 on success, or -1 with a Python error set.
struct Exchange {
  ExchangeHeader header;
  int (*allocate)(Tensor*, ManagedTensor**, void*, void (*)(void*, const char*, const char*));
  int (*managed_from_object)(void* object, ManagedTensor**);
  /// Takes ownership of the tensor; `object` is a new reference.
  int (*managed_to_object)(ManagedTensor*, void** object);
  /// Describes a tensor without taking it; valid while the object lives unchanged. May be nullptr.
  int (*view_from_object)(void* object, Tensor*);
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream);
};

}  // namespace opgraft::dlpack
