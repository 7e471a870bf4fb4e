#include "services/worker/nvml.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adaptdl::worker {
namespace {

// Of nvml.h, which machines without a GPU lack; its numbers don't change.
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlFunctionNotFound = 13;
constexpr int kNvmlGpuIsLost = 15;
constexpr int kNvmlResetRequired = 16;
constexpr unsigned kNvmlMigEnabled = 1;
constexpr int kNvmlUncorrected = 1;
constexpr int kNvmlVolatile = 0;
constexpr unsigned kNvmlTextBytes = 96;  // the most that a UUID or a name takes
constexpr int kNvmlTemperatureOfGpu = 0;

// nvmlUtilization_t, in percent, and nvmlMemory_t, in bytes.
struct NvmlUtilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

// Of nvmlClocksEventReasons, those that heat is behind.
constexpr std::pair<unsigned long long, const char*> kHeat[] = {
    {0x40, "hardware thermal slowdown"}, {0x08, "hardware slowdown"}, {0x20, "software thermal slowdown"}};

bool MeansLost(int code) { return code == kNvmlGpuIsLost || code == kNvmlResetRequired; }

std::string DescribeHeat(unsigned long long reasons) {
  std::vector<const char*> names;
  for (const auto& [bit, name] : kHeat) {
    if ((reasons & bit) != 0) names.push_back(name);
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

template <typename... Arguments>
int Nvml::Call(const char* function, Arguments... arguments) const {
  const auto found = library_.Find<int(Arguments...)>(function);
  return found.ok() ? (*found)(arguments...) : kNvmlFunctionNotFound;
}

std::string Nvml::Describe(int code) const {
  const auto describe = library_.Find<const char*(int)>("nvmlErrorString");
  return absl::StrCat(describe.ok() ? (*describe)(code) : "error", " (NVML ", code, ")");
}

int Nvml::GetText(const char* function, Handle device, std::string* text) const {
  char buffer[kNvmlTextBytes] = "";
  const int code = Call(function, device, static_cast<char*>(buffer), kNvmlTextBytes);
  *text = buffer;
  return code;
}

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& library) {
  absl::StatusOr<SharedLibrary> opened = SharedLibrary::Open({library}, "install NVIDIA's driver");
  if (!opened.ok()) return opened.status();
  std::unique_ptr<Nvml> nvml(new Nvml(*std::move(opened)));
  const int code = nvml->Call("nvmlInit_v2");
  if (code != kNvmlSuccess) {
    return absl::FailedPreconditionError(
        absl::StrCat(library, " can't reach the driver: ", nvml->Describe(code)));
  }
  nvml->ready_ = true;
  nvml->FindGpus();
  return nvml;
}

Nvml::~Nvml() {
  if (ready_) Call("nvmlShutdown");
}

void Nvml::FindGpus() {
  unsigned count = 0;
  if (const int code = Call("nvmlDeviceGetCount_v2", &count); code != kNvmlSuccess) {
    found_.problems.push_back(absl::StrCat("the GPUs can't be counted: ", Describe(code)));
    return;
  }
  for (unsigned index = 0; index < count; ++index) {
    const int code = FindGpu(index);
    if (code == kNvmlSuccess) continue;
    found_.problems.push_back(absl::StrCat("GPU ", index, ": ", Describe(code),
                                           "; it is looked for again at a restart of the worker"));
  }
}

int Nvml::FindGpu(unsigned index) {
  Handle gpu = nullptr;
  GpuDevice device;
  device.index = static_cast<int>(index);
  int code = Call("nvmlDeviceGetHandleByIndex_v2", index, &gpu);
  if (code == kNvmlSuccess) code = GetText("nvmlDeviceGetUUID", gpu, &device.uuid);
  if (code == kNvmlSuccess) code = GetText("nvmlDeviceGetName", gpu, &device.type);
  if (code != kNvmlSuccess) return code;
  device.gpu = device.uuid;
  handles_[device.uuid] = gpu;
  unsigned mode = 0;
  unsigned pending = 0;
  // GPUs and drivers that know no MIG say so by an error.
  if (Call("nvmlDeviceGetMigMode", gpu, &mode, &pending) == kNvmlSuccess && mode == kNvmlMigEnabled) {
    FindSlices(gpu, device);
  } else {
    found_.devices.push_back(device);
  }
  return kNvmlSuccess;
}

void Nvml::FindSlices(Handle gpu, const GpuDevice& whole) {
  unsigned most = 0;
  if (Call("nvmlDeviceGetMaxMigDeviceCount", gpu, &most) != kNvmlSuccess) return;
  for (unsigned index = 0; index < most; ++index) {
    Handle slice = nullptr;
    GpuDevice device = whole;
    // Places that no slice was made at are empty.
    if (Call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, index, &slice) != kNvmlSuccess) continue;
    if (GetText("nvmlDeviceGetUUID", slice, &device.uuid) != kNvmlSuccess) continue;
    if (GetText("nvmlDeviceGetName", slice, &device.type) != kNvmlSuccess) continue;
    found_.devices.push_back(std::move(device));
  }
}

GpuSample Nvml::Sample(const std::string& gpu) const {
  const Handle handle = handles_.at(gpu);
  GpuSample sample;
  unsigned long long errors = 0;
  int code = Call("nvmlDeviceGetTotalEccErrors", handle, kNvmlUncorrected, kNvmlVolatile, &errors);
  if (code == kNvmlSuccess) sample.uncorrected_errors = errors;
  if (MeansLost(code)) {
    sample.lost = Describe(code);
    return sample;
  }
  unsigned long long reasons = 0;
  code = Call("nvmlDeviceGetCurrentClocksEventReasons", handle, &reasons);
  if (code == kNvmlFunctionNotFound) {  // what drivers before 530 call it
    code = Call("nvmlDeviceGetCurrentClocksThrottleReasons", handle, &reasons);
  }
  if (code == kNvmlSuccess) sample.slowdown = DescribeHeat(reasons);
  if (MeansLost(code)) {
    sample.lost = Describe(code);
    return sample;
  }
  sample.figures = Figures(handle);
  return sample;
}

// GPUs, and those in MIG mode more than others, don't answer everything.
GpuFigures Nvml::Figures(Handle gpu) const {
  GpuFigures figures;
  NvmlUtilization utilization;
  if (Call("nvmlDeviceGetUtilizationRates", gpu, &utilization) == kNvmlSuccess) {
    figures.utilization = std::min(utilization.gpu, 100u) / 100.0;
  }
  NvmlMemory memory;
  if (Call("nvmlDeviceGetMemoryInfo", gpu, &memory) == kNvmlSuccess) {
    figures.memory_bytes = static_cast<int64_t>(memory.used);
    figures.memory_total_bytes = static_cast<int64_t>(memory.total);
  }
  unsigned celsius = 0;
  if (Call("nvmlDeviceGetTemperature", gpu, kNvmlTemperatureOfGpu, &celsius) == kNvmlSuccess) {
    figures.temperature_celsius = celsius;
  }
  unsigned milliwatts = 0;
  if (Call("nvmlDeviceGetPowerUsage", gpu, &milliwatts) == kNvmlSuccess) {
    figures.power_watts = milliwatts / 1000.0;
  }
  return figures;
}

}  // namespace adaptdl::worker
