// Where tests of LibTorch's front end train: on the first GPU where there is one, else on the CPU.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_TORCH_TORCH_TEST_DEVICE_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_TORCH_TORCH_TEST_DEVICE_H_

#include <memory>
#include <utility>

#include "libs/comm/communicator.h"
#include "libs/comm/staged_communicator.h"
#include "libs/elastic/torch/torch_devices.h"
#include "torch/cuda.h"
#include "torch/types.h"

namespace adaptdl::elastic {

inline torch::Device TorchTestDevice() {
  static const bool has_gpu = torch::cuda::is_available();
  return has_gpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
}

// One that takes buffers there, too.
inline std::unique_ptr<comm::Communicator> OverTorchTestDevice(std::unique_ptr<comm::Communicator> inner) {
  if (TorchTestDevice().is_cpu()) return inner;
  return comm::CreateStagedCommunicator(std::move(inner), DeviceFor(TorchTestDevice()).value()).value();
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_TORCH_TORCH_TEST_DEVICE_H_
