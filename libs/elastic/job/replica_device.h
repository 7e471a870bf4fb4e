// Which device a replica's group exchanges besides main memory, and how: decided once, when the replica starts,
// the same way on all replicas of a job.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_REPLICA_DEVICE_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_REPLICA_DEVICE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/device/device.h"
#include "libs/elastic/control/environment.h"

namespace adaptdl::elastic {

// What this process can have.
struct Gpus {
  // How many CUDA shows it. An error: there is no telling, because something is missing.
  std::function<absl::StatusOr<int>()> count;
  // By CUDA's index.
  std::function<absl::StatusOr<device::Device*>(int index)> open;
  // The version of NCCL, such as "2.27.3". An error: it is missing.
  std::function<absl::StatusOr<std::string>()> nccl_version;
};

// Those of this machine.
Gpus GpusOfProcess();

struct ReplicaDevice {
  // Null: main memory only. Not owned, and there for good.
  device::Device* device = nullptr;
  // Whether its memory goes over NCCL; else by way of main memory.
  bool nccl = false;
  // For people. Empty: there is no GPU.
  std::string report = {};
};

// `backend`: "nccl", "gloo", or empty: NCCL where this process sees a GPU and has NCCL. The first GPU that it sees
// is meant. FAILED_PRECONDITION: NCCL was asked for, or GPUs were, and it cannot be had; the text says why.
absl::StatusOr<ReplicaDevice> ChooseDevice(const Environment& environment, const std::string& backend,
                                           const Gpus& gpus);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_REPLICA_DEVICE_H_
