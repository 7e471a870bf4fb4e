// Shims without processes: the test says what becomes of them. Not thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_FAKE_SHIMS_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_FAKE_SHIMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/worker/shims.h"

namespace adaptdl::worker {

class FakeShims final : public Shims {
 public:
  struct StopCall {
    std::string replica_id;
    absl::Duration grace_period;
  };

  void SetListener(ShimListener* listener) override { listener_ = listener; }
  absl::Status Launch(const std::string& replica_id, const std::string& folder) override {
    if (!launch_status.ok()) return launch_status;
    launched.push_back(replica_id);
    folders.push_back(folder);
    if (while_launching) while_launching(replica_id);
    return absl::OkStatus();
  }
  void Attach(const std::string& replica_id, const std::string&) override { attached.push_back(replica_id); }
  void Stop(const std::string& replica_id, absl::Duration grace_period, const std::string&) override {
    stops.push_back({replica_id, grace_period});
  }

  void SayRunning(const std::string& replica_id) {
    listener_->OnRunning(replica_id, {.pid = 1, .start_time = absl::FromUnixSeconds(100)});
  }
  void SayExited(const std::string& replica_id, ExitRecord record) {
    listener_->OnExited(replica_id, record);
  }

  absl::Status launch_status;
  // Called by Launch(), which so takes as long as that.
  std::function<void(const std::string&)> while_launching;
  std::vector<std::string> launched;
  std::vector<std::string> folders;
  std::vector<std::string> attached;
  std::vector<StopCall> stops;

 private:
  ShimListener* listener_ = nullptr;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_FAKE_SHIMS_H_
