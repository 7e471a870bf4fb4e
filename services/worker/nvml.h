// NVML, the library of NVIDIA's driver, opened at run time: nodes without a GPU have none.
//
// Any call may hang while a GPU is broken. Thread-safe, as NVML is.

#ifndef ADAPTDL_SERVICES_WORKER_NVML_H_
#define ADAPTDL_SERVICES_WORKER_NVML_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/base/shared_library.h"
#include "services/worker/gpu_health.h"
#include "services/worker/gpus.h"

namespace adaptdl::worker {

// As the dynamic linker knows it.
inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

class Nvml {
 public:
  // Looks for the GPUs that there are. `library`: path or name. NOT_FOUND: it can't be opened.
  // FAILED_PRECONDITION: it can't reach the driver.
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // What was there when it was opened.
  const FoundGpus& found() const { return found_; }

  // How the GPU of that UUID is now; one of those that were found (GpuDevice::gpu).
  GpuSample Sample(const std::string& gpu) const;

 private:
  using Handle = void*;

  explicit Nvml(SharedLibrary library) : library_(std::move(library)) {}

  // Calls a function of NVML. The types of the arguments must be those that it declares.
  template <typename... Arguments>
  int Call(const char* function, Arguments... arguments) const;
  // Its code for people.
  std::string Describe(int code) const;
  // Name or UUID of a device; the code of an error.
  int GetText(const char* function, Handle device, std::string* text) const;
  GpuFigures Figures(Handle gpu) const;

  void FindGpus();
  int FindGpu(unsigned index);
  void FindSlices(Handle gpu, const GpuDevice& whole);

  const SharedLibrary library_;
  bool ready_ = false;
  FoundGpus found_;
  // Kept, rather than found again by UUID: a search by UUID fails as soon as any GPU is lost.
  std::map<std::string, Handle> handles_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NVML_H_
