// The types of numbers that tensors and messages hold.

#ifndef ADAPTDL_LIBS_DEVICE_DATA_TYPE_H_
#define ADAPTDL_LIBS_DEVICE_DATA_TYPE_H_

#include <cstdint>

namespace adaptdl::device {

// The two halves: IEEE 754 binary16, and the upper half of a float32.
enum class DataType : uint8_t { kFloat32, kFloat64, kInt64, kUint8, kFloat16, kBFloat16 };

// Size of one element in bytes.
constexpr int64_t ElementSize(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kUint8:
      return 1;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
  }
  return 1;
}

constexpr bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBFloat16; }

// As messages and errors name it.
constexpr const char* NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
  }
  return "unknown";
}

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_DATA_TYPE_H_
