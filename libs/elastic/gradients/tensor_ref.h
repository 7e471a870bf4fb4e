// Where numbers lie on a device, one after the other. Not owned.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_TENSOR_REF_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_TENSOR_REF_H_

#include <cstdint>

#include "libs/device/data_type.h"

namespace adaptdl::elastic {

struct TensorRef {
  // Of the device that the model is on. Null only without elements.
  void* data = nullptr;
  int64_t count = 0;
  device::DataType type = device::DataType::kFloat32;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_TENSOR_REF_H_
