// Numbers in a device's memory, for tests.

#ifndef ADAPTDL_TESTS_LIBS_DEVICE_DEVICE_MEMORY_H_
#define ADAPTDL_TESTS_LIBS_DEVICE_DEVICE_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/device/data_type.h"
#include "libs/device/device.h"
#include "libs/device/half.h"

namespace adaptdl::device {

// Waits for all that was put on `stream`.
inline void Synchronize(Device& device, Stream stream = nullptr) {
  const std::unique_ptr<Event> event = device.CreateEvent(false).value();
  device.Record(*event, stream).IgnoreError();
  device.Await(*event).IgnoreError();
}

// `values` rounded to `type`, in main memory.
inline std::vector<char> BytesOf(const std::vector<double>& values, DataType type) {
  std::vector<char> bytes(values.size() * static_cast<size_t>(ElementSize(type)));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<float>(values[i]);
    if (type == DataType::kFloat32) reinterpret_cast<float*>(bytes.data())[i] = number;
    if (type == DataType::kFloat64) reinterpret_cast<double*>(bytes.data())[i] = values[i];
    if (type == DataType::kFloat16) reinterpret_cast<Float16*>(bytes.data())[i] = ToFloat16(number);
    if (type == DataType::kBFloat16) reinterpret_cast<BFloat16*>(bytes.data())[i] = ToBFloat16(number);
  }
  return bytes;
}

inline std::vector<double> NumbersOf(const std::vector<char>& bytes, DataType type) {
  std::vector<double> values(bytes.size() / static_cast<size_t>(ElementSize(type)));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == DataType::kFloat32) values[i] = reinterpret_cast<const float*>(bytes.data())[i];
    if (type == DataType::kFloat64) values[i] = reinterpret_cast<const double*>(bytes.data())[i];
    if (type == DataType::kFloat16) values[i] = ToFloat(reinterpret_cast<const Float16*>(bytes.data())[i]);
    if (type == DataType::kBFloat16) values[i] = ToFloat(reinterpret_cast<const BFloat16*>(bytes.data())[i]);
  }
  return values;
}

inline std::vector<double> Rounded(const std::vector<double>& values, DataType type) {
  return NumbersOf(BytesOf(values, type), type);
}

// Such numbers in a device's memory; written and read through the device alone.
class DeviceNumbers {
 public:
  DeviceNumbers(Device& device, const std::vector<double>& values, DataType type = DataType::kFloat64)
      : device_(device), type_(type), bytes_(values.size() * static_cast<size_t>(ElementSize(type))) {
    memory_ = device.Allocate(static_cast<int64_t>(bytes_)).value();
    Set(values);
  }

  void* data() const { return memory_.data(); }
  double* doubles() const { return static_cast<double*>(memory_.data()); }
  DataType type() const { return type_; }

  void Set(const std::vector<double>& values) {
    const std::vector<char> bytes = BytesOf(values, type_);
    const Memory host = device_.AllocateHost(static_cast<int64_t>(bytes_)).value();
    std::copy(bytes.begin(), bytes.end(), host.at(0));
    device_.Copy(memory_.data(), host.data(), static_cast<int64_t>(bytes_), nullptr).IgnoreError();
    Synchronize(device_);
  }

  // After all that is on the default stream.
  std::vector<double> Get() const {
    const Memory host = device_.AllocateHost(static_cast<int64_t>(bytes_)).value();
    device_.Copy(host.data(), memory_.data(), static_cast<int64_t>(bytes_), nullptr).IgnoreError();
    Synchronize(device_);
    return NumbersOf(std::vector<char>(host.at(0), host.at(static_cast<int64_t>(bytes_))), type_);
  }

 private:
  Device& device_;
  const DataType type_;
  const size_t bytes_;
  Memory memory_;
};

}  // namespace adaptdl::device

#endif  // ADAPTDL_TESTS_LIBS_DEVICE_DEVICE_MEMORY_H_
