// Which GPU of the node belongs to which replica.
//
// Thread-safety: not thread-safe; the replica manager guards it.

#ifndef ADAPTDL_SERVICES_WORKER_DEVICES_H_
#define ADAPTDL_SERVICES_WORKER_DEVICES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adaptdl::worker {

class DeviceTable {
 public:
  // `devices`: as CUDA_VISIBLE_DEVICES names them; distinct.
  explicit DeviceTable(std::vector<std::string> devices) : devices_(std::move(devices)) {}

  // Gives `count` free devices to `owner`, the first ones that are free. RESOURCE_EXHAUSTED: not so many are
  // free; nothing is given then.
  absl::StatusOr<std::vector<std::string>> Take(const std::string& owner, int count);

  // Marks what a replica from before the worker's restart still holds.
  void Restore(const std::string& owner, const std::vector<std::string>& devices);

  // Frees everything that `owner` holds.
  void Release(const std::string& owner);

 private:
  const std::vector<std::string> devices_;
  std::map<std::string, std::string> owners_;  // by device
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_DEVICES_H_
