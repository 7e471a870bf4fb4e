// Where an example trains.

#ifndef ADAPTDL_EXAMPLES_COMMON_DEVICE_H_
#define ADAPTDL_EXAMPLES_COMMON_DEVICE_H_

#include "c10/core/Device.h"
#include "examples/common/options.h"

namespace torch::nn {
class Module;
}

namespace examples {

// What options.device means here. Ends the process, and says why, if that is a GPU and LibTorch sees none.
c10::Device DeviceOf(const Options& options);

// Where its parameters are.
c10::Device DeviceOf(const torch::nn::Module& net);

}  // namespace examples

#endif  // ADAPTDL_EXAMPLES_COMMON_DEVICE_H_
