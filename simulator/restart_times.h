// What restarts cost: a constant, a constant per application, or what was recorded on a real cluster.
//
//   absl::StatusOr<RestartTimes> times = RestartTimes::Load("pauses.json");
//
// The file: {"pause_s": [12.5, 14.1], "applications": {"bert": [31, 29.5]}}, in seconds, either part may be
// missing. `pause_s` is for applications that have no list of their own. With {"state_bytes": 8e8,
// "bytes_per_second": 1.2e9} each time is so much longer: the time that a state of this size takes from one
// replica to another. "source" says where the file is from, and means nothing here.
//
// Immutable once loaded; thread-safe.

#ifndef ADAPTDL_SIMULATOR_RESTART_TIMES_H_
#define ADAPTDL_SIMULATOR_RESTART_TIMES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

class RestartTimes {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: something else than described above.
  // `option` names the file's option in errors, `source` the text.
  static absl::StatusOr<RestartTimes> Load(const std::string& path,
                                           const std::string& option = "--restart-times");
  static absl::StatusOr<RestartTimes> Parse(absl::string_view text, const std::string& source,
                                            const std::string& option = "--restart-times");

  // INVALID_ARGUMENT: nothing was recorded for a job's application, which is named.
  absl::Status Cover(absl::Span<const WorkloadJob> workload) const;

  // The recorded times of an application. Not empty if Cover() is OK.
  const std::vector<double>& Of(const std::string& application) const;
  double Mean(const std::string& application) const;

 private:
  std::string source_;
  std::vector<double> common_;
  std::map<std::string, std::vector<double>> by_application_;
};

struct RestartCost {
  // In seconds. Nothing: what the application's constant says.
  std::optional<double> seconds;
  // Not null: what was recorded, instead. Outlives this.
  const RestartTimes* measured = nullptr;
  uint64_t seed = 1;
  // Not null: what changes take where some of the job's replicas go on. Outlives this.
  const RestartTimes* in_place = nullptr;
  // Not null: how long before such a change its newcomers are launched. Outlives this.
  const RestartTimes* newcomers = nullptr;

  // The means, which is what policies know: of a start from nothing, and of a change of a job that runs.
  double Expected(const Application& application) const;
  double ExpectedChange(const Application& application) const;
  // Of a job's n-th start; recorded times are drawn with equal chances, by job, n and seed.
  double OfStart(const WorkloadJob& job, int n) const;
  // The same if it is a change in place. REQUIRES: in_place is not null.
  double OfChange(const WorkloadJob& job, int n) const;
  // How long that waits for newcomers.
  double OfNewcomers(const WorkloadJob& job, int n) const;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_RESTART_TIMES_H_
