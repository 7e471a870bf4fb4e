// Main memory, and the CPU that the caller runs on: everything is done before a call returns.
//
// Thread-safety: as Device.

#ifndef ADAPTDL_LIBS_DEVICE_CPU_DEVICE_H_
#define ADAPTDL_LIBS_DEVICE_CPU_DEVICE_H_

#include "libs/device/device.h"

namespace adaptdl::device {

// The one of this process; lives as long as it does.
Device& Cpu();

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_CPU_DEVICE_H_
