// Which GPU of the node belongs to which replica, and which are fit to be given away.
//
// A GPU that a replica has stays its own, whatever becomes of it: what is unfit is given to nobody else.
//
// Thread-safety: not thread-safe; the replica manager guards it.

#ifndef ADAPTDL_SERVICES_WORKER_DEVICES_H_
#define ADAPTDL_SERVICES_WORKER_DEVICES_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace adaptdl::worker {

class DeviceTable {
 public:
  using Names = std::map<std::string, std::vector<std::string>>;

  // `devices`: as CUDA_VISIBLE_DEVICES names them; distinct. `other_names`: what records of an earlier worker
  // may call them; one name may stand for several.
  explicit DeviceTable(std::vector<std::string> devices, Names other_names = {})
      : devices_(std::move(devices)), other_names_(std::move(other_names)) {}

  // Gives `count` free devices to `owner`, the first ones that are free and fit. RESOURCE_EXHAUSTED: not so
  // many are; nothing is given then.
  absl::StatusOr<std::vector<std::string>> Take(const std::string& owner, int count);

  // Marks what a replica from before the worker's restart still holds.
  void Restore(const std::string& owner, const std::vector<std::string>& devices);

  // Frees everything that `owner` holds.
  void Release(const std::string& owner);

  // These are unfit, and all others fit.
  void SetUnfit(std::set<std::string> devices) { unfit_ = std::move(devices); }

  // Devices that are fit, or that a replica holds.
  int offered() const;
  // Devices that are not fit.
  int unfit() const;

 private:
  const std::vector<std::string> devices_;
  const Names other_names_;
  std::map<std::string, std::string> owners_;  // by device
  std::set<std::string> unfit_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_DEVICES_H_
