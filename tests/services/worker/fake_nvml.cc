// Stands in for libnvidia-ml.so.1. Its GPUs, and how they are, stand in the file that FAKE_NVML_FILE names,
// which is read anew by every call, so that a test can change it while a program runs (put another file in
// its place):
//
//   gpu UUID STATUS ERRORS CLOCKS NAME...   a GPU: the code (nvmlReturn_t) of all calls about it, its
//                                           uncorrected memory errors ("-": not supported), its clocks event
//                                           reasons (hexadecimal)
//   mig UUID NAME...                        a slice of the GPU above
//   use PERCENT USED TOTAL CELSIUS MILLIWATTS   how much of the GPU above is in use; without it, it does not say
//
// A status of -1: the calls hang, after making the file FAKE_NVML_FILE.hangs. Without the file there is no
// driver.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kHangs = -1;
constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kDriverNotLoaded = 9;
constexpr unsigned kMostSlices = 7;

struct Slice {
  std::string uuid;
  std::string name;
};

struct Gpu {
  std::string uuid;
  int status = 0;
  std::string errors;
  unsigned long long clocks = 0;
  std::string name;
  std::vector<Slice> slices;
  std::string use;
};

struct Use {
  unsigned percent = 0;
  unsigned long long used = 0;
  unsigned long long total = 0;
  unsigned celsius = 0;
  unsigned milliwatts = 0;
};

std::string Rest(std::istringstream* line) {
  std::string rest;
  std::getline(*line >> std::ws, rest);
  return rest;
}

// False: there is no file.
bool Read(std::vector<Gpu>* gpus) {
  const char* path = std::getenv("FAKE_NVML_FILE");
  std::ifstream file(path == nullptr ? "" : path);
  if (!file) return false;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (kind == "gpu") {
      Gpu& gpu = gpus->emplace_back();
      line >> gpu.uuid >> gpu.status >> gpu.errors >> std::hex >> gpu.clocks;
      gpu.name = Rest(&line);
    } else if (kind == "mig") {
      Slice& slice = gpus->back().slices.emplace_back();
      line >> slice.uuid;
      slice.name = Rest(&line);
    } else if (kind == "use") {
      gpus->back().use = Rest(&line);
    }
  }
  return true;
}

// A handle is the number of the GPU from 1, and of its slice from 1, or 0.
constexpr size_t kSliceBits = 8;
void* HandleOf(size_t gpu, size_t slice) {
  return reinterpret_cast<void*>(((gpu + 1) << kSliceBits) | slice);
}
size_t SliceOf(void* handle) { return reinterpret_cast<size_t>(handle) & ((1 << kSliceBits) - 1); }

[[noreturn]] void Hang() {
  const char* const file = std::getenv("FAKE_NVML_FILE");
  if (file != nullptr) std::ofstream(std::string(file) + ".hangs") << "";
  while (true) pause();
}

// The GPU of a device, as far as calls about it succeed.
int Find(void* handle, Gpu* gpu) {
  std::vector<Gpu> gpus;
  if (!Read(&gpus)) return kDriverNotLoaded;
  const size_t index = (reinterpret_cast<size_t>(handle) >> kSliceBits) - 1;
  if (index >= gpus.size()) return kNotFound;
  *gpu = gpus[index];
  if (gpu->status == kHangs) Hang();
  return gpu->status;
}

int Text(void* device, std::string Gpu::*of_gpu, std::string Slice::*of_slice, char* text, unsigned size) {
  Gpu gpu;
  const int status = Find(device, &gpu);
  if (status != kSuccess) return status;
  const size_t slice = SliceOf(device);
  std::snprintf(text, size, "%s", (slice == 0 ? gpu.*of_gpu : gpu.slices[slice - 1].*of_slice).c_str());
  return kSuccess;
}

int Find(void* handle, Use* use) {
  Gpu gpu;
  const int status = Find(handle, &gpu);
  if (status != kSuccess) return status;
  if (gpu.use.empty()) return kNotSupported;
  std::istringstream(gpu.use) >> use->percent >> use->used >> use->total >> use->celsius >> use->milliwatts;
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  std::vector<Gpu> gpus;
  return Read(&gpus) ? kSuccess : kDriverNotLoaded;
}

int nvmlShutdown() { return kSuccess; }

const char* nvmlErrorString(int code) {
  switch (code) {
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    case 16:
      return "GPU requires reset";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  std::vector<Gpu> gpus;
  if (!Read(&gpus)) return kDriverNotLoaded;
  *count = static_cast<unsigned>(gpus.size());
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  Gpu gpu;
  *device = HandleOf(index, 0);
  return Find(*device, &gpu);
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  return Text(device, &Gpu::uuid, &Slice::uuid, uuid, size);
}

int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  return Text(device, &Gpu::name, &Slice::name, name, size);
}

int nvmlDeviceGetMigMode(void* device, unsigned* mode, unsigned* pending) {
  Gpu gpu;
  const int status = Find(device, &gpu);
  *mode = *pending = gpu.slices.empty() ? 0 : 1;
  return status;
}

int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  Gpu gpu;
  *count = kMostSlices;
  return Find(device, &gpu);
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** slice) {
  Gpu gpu;
  const int status = Find(device, &gpu);
  if (status != kSuccess) return status;
  if (index >= gpu.slices.size()) return kNotFound;
  *slice = HandleOf((reinterpret_cast<size_t>(device) >> kSliceBits) - 1, index + 1);
  return kSuccess;
}

int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* errors) {
  Gpu gpu;
  const int status = Find(device, &gpu);
  if (status != kSuccess) return status;
  const bool asked = type == 1 && counter == 0;  // uncorrected, volatile
  if (!asked || gpu.errors == "-") return kNotSupported;
  *errors = std::strtoull(gpu.errors.c_str(), nullptr, 10);
  return kSuccess;
}

// `rates`: of computing and of the memory's bus.
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  Use use;
  const int status = Find(device, &use);
  rates[0] = use.percent;
  rates[1] = 0;
  return status;
}

// `memory`: total, free and used.
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  Use use;
  const int status = Find(device, &use);
  memory[0] = use.total;
  memory[1] = use.total - use.used;
  memory[2] = use.used;
  return status;
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  Use use;
  const int status = Find(device, &use);
  *celsius = use.celsius;
  return sensor == 0 ? status : kNotSupported;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  Use use;
  const int status = Find(device, &use);
  *milliwatts = use.milliwatts;
  return status;
}

// The older of the two names of this function.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  Gpu gpu;
  const int status = Find(device, &gpu);
  *reasons = gpu.clocks;
  return status;
}

}  // extern "C"
