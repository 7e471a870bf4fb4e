// Makes a cluster in a cloud, and ends it.
//
//   Up     finds the head by its tags, or makes it; waits until its console tells the cluster's authority and a token; keeps these as
//          the user's profile. Cut short and begun again it goes on: the head is made once, by its token
//   Down   ends the head first, since it would make new workers for those that end, then the workers, until none is seen; then what
//          EC2 keeps of the launch, and the profile
//
// Workers are the autoscaler's on the head.
//
// Not thread-safe. What is given outlives it.

#ifndef ADAPTDL_CLI_CLOUD_LAUNCHER_H_
#define ADAPTDL_CLI_CLOUD_LAUNCHER_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/cloud/cluster_file.h"
#include "cli/cloud/ec2_machines.h"
#include "cli/cloud/profile.h"
#include "libs/base/clock.h"
#include "libs/http/pauses.h"

namespace adaptdl::cli {

struct LauncherParts {
  Ec2Machines* ec2;
  const Clock* clock;
  const Pauses* pauses;
  // For people, of each step.
  std::function<void(const std::string&)> tell;
  // Of Up and of Down, until what they wait for.
  absl::Duration timeout = absl::Minutes(10);
  absl::Duration look_period = absl::Seconds(5);
  bool dry_run = false;
};

class Launcher {
 public:
  Launcher(const ClusterFile& cluster, LauncherParts parts) : cluster_(cluster), parts_(std::move(parts)) {}

  // Of a head that has told what is needed; whether its supervisor answers yet is another question. Nothing: a dry run.
  // DEADLINE_EXCEEDED: it can be begun again, and goes on. FAILED_PRECONDITION: something stands in its way.
  absl::StatusOr<std::optional<Profile>> Up();
  absl::Status Down();

 private:
  // Nothing: there is none that lives.
  absl::StatusOr<std::optional<Machine>> FindHead();
  absl::StatusOr<std::string> MakeHead();
  absl::StatusOr<Machine> AwaitRunning(const std::string& id, absl::Time deadline);
  absl::StatusOr<Announcement> AwaitAnnouncement(const std::string& id, absl::Time deadline);
  // DEADLINE_EXCEEDED after the deadline, with `what`.
  absl::Status Pause(absl::Time deadline, const std::string& what);
  absl::Status EndAll(absl::Time deadline);

  const ClusterFile& cluster_;
  const LauncherParts parts_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLOUD_LAUNCHER_H_
