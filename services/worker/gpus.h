// Which GPUs this node offers: devices by name, out of those that the driver shows.
//
// A device is what one replica gets at a time: a GPU, or a slice of one that is in MIG mode. Its name is its
// UUID, which stays the same when GPUs come and go, as a number does not. Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_GPUS_H_
#define ADAPTDL_SERVICES_WORKER_GPUS_H_

#include <map>
#include <string>
#include <vector>

namespace adaptdl::worker {

struct GpuDevice {
  // "GPU-...", or "MIG-..." of a slice.
  std::string uuid;
  // Model, as the driver calls it ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb").
  std::string type;
  // The GPU that it is, or is a slice of: its UUID and its number, which is that of nvidia-smi.
  std::string gpu;
  int index = 0;
};

// What the driver shows.
struct FoundGpus {
  // By number. A GPU in MIG mode is there as its slices only.
  std::vector<GpuDevice> devices;
  // What could not be looked at, for people.
  std::vector<std::string> problems;
};

struct GpuInventory {
  // All of one type.
  std::vector<GpuDevice> devices;
  // Empty: none, or unknown.
  std::string type;
  // GPUs that are there and can't be offered, for people.
  std::vector<std::string> problems;
  // What else devices may be called in records of an earlier worker: numbers, and what CUDA_VISIBLE_DEVICES
  // said.
  std::map<std::string, std::vector<std::string>> other_names;
  // What an operator should know of how they were chosen.
  std::vector<std::string> warnings;
};

// Those of `found` that are offered. `visible` is the worker's own CUDA_VISIBLE_DEVICES, read as CUDA does:
// numbers, UUIDs or beginnings of these that only one has; what stands behind an entry that is none of these
// is invisible. A number or name of a GPU in MIG mode stands for all of its slices. Null: all.
//
// A node has one type of GPUs: of several, the devices of `type` are offered, or of the most frequent one if
// none is of that; of equally frequent ones the first. If `type` is given and no device is of that, it is
// what they all are called.
GpuInventory SelectGpus(const FoundGpus& found, const char* visible, const std::string& type);

// `count` devices that nobody has looked for, named by numbers.
GpuInventory DeclareGpus(int count, const std::string& type);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_GPUS_H_
