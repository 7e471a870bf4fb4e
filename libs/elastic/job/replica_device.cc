#include "libs/elastic/job/replica_device.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/comm/nccl_library.h"
#include "libs/device/device_loader.h"

namespace adaptdl::elastic {
namespace {

std::string Why(const absl::StatusOr<int>& count) {
  if (!count.ok()) return std::string(count.status().message());
  return "CUDA shows it none (see CUDA_VISIBLE_DEVICES)";
}

}  // namespace

Gpus GpusOfProcess() {
  return {.count = device::CountCudaDevices,
          .open = device::CudaDeviceAt,
          .nccl_version = []() -> absl::StatusOr<std::string> {
            const absl::StatusOr<comm::NcclLibrary> nccl = comm::NcclLibrary::Open();
            if (!nccl.ok()) return nccl.status();
            return comm::NcclVersionText(nccl->version);
          }};
}

absl::StatusOr<ReplicaDevice> ChooseDevice(const Environment& environment, const std::string& backend,
                                           const Gpus& gpus) {
  const absl::StatusOr<int> count = gpus.count();
  const bool sees_gpus = count.ok() && *count > 0;
  if (!sees_gpus && environment.num_gpus > 0) {
    return absl::FailedPreconditionError(absl::StrCat("this replica was given ", environment.num_gpus,
                                                      environment.num_gpus == 1 ? " GPU" : " GPUs",
                                                      ", and its process can use none: ", Why(count)));
  }
  if (!sees_gpus && backend == "nccl") {
    return absl::FailedPreconditionError(absl::StrCat("the backend \"nccl\" needs a GPU: ", Why(count),
                                                      "; give \"gloo\" to train on the CPU"));
  }
  if (!sees_gpus) return ReplicaDevice();
  const absl::StatusOr<device::Device*> device = gpus.open(0);
  if (!device.ok()) return device.status();
  ReplicaDevice chosen{.device = *device};
  const absl::StatusOr<std::string> nccl =
      backend == "gloo" ? absl::NotFoundError("\"gloo\" was asked for") : gpus.nccl_version();
  if (!nccl.ok() && backend == "nccl") return nccl.status();
  chosen.nccl = nccl.ok();
  chosen.report =
      absl::StrCat("sees ", *count, *count == 1 ? " GPU" : " GPUs", "; its device is ", (*device)->name(),
                   ", and gradients there go ",
                   chosen.nccl ? absl::StrCat("over NCCL ", *nccl)
                               : absl::StrCat("by way of main memory (", nccl.status().message(), ")"));
  return chosen;
}

}  // namespace adaptdl::elastic
