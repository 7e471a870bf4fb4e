// Following jobs over time: their phases and their logs, across restarts of the supervisor. Thread-safe.

#ifndef ADAPTDL_CLI_FOLLOW_H_
#define ADAPTDL_CLI_FOLLOW_H_

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "cli/client.h"
#include "cli/context.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"

namespace adaptdl::cli {

// How long a supervisor that was there may stay away before a stream is given up.
inline constexpr absl::Duration kLongestOutage = absl::Seconds(60);

// Decides whether what was broken by an outage is tried again, and waits before it is. The supervisor was heard before: it
// gets time to be restarted. Not thread-safe.
class Reconnector {
 public:
  // `clock` outlives it.
  explicit Reconnector(const Clock& clock) : clock_(clock) {}

  // Something was heard: an outage, if there was one, is over.
  void Heard();
  // Whether to try again.
  bool WaitToRetry();

 private:
  const Clock& clock_;
  Backoff backoff_{kFirstRetryDelay, absl::Seconds(2)};
  absl::Time outage_start_ = absl::InfiniteFuture();
};

// Waits until the job has finished and returns it. DEADLINE_EXCEEDED when that is not before `deadline`
// (steady); NOT_FOUND when it does not exist or is deleted meanwhile; CANCELLED once `stop` is requested. `on_change`, unless
// it is null, hears of the job as it is and becomes until then.
absl::StatusOr<v1::Job> WaitUntilFinished(Client& client, const JobReference& job, absl::Time deadline,
                                          const std::function<void(const v1::Job&)>& on_change = nullptr,
                                          const std::stop_token& stop = {});

// Calls `on_line` for each line, each once, and `on_warning` for what could not be read, until the stream
// ends. Call it after another call to the supervisor has succeeded.
absl::Status StreamLogs(Client& client, const v1::StreamLogsRequest& request,
                        const std::function<void(const v1::LogLine&)>& on_line,
                        const std::function<void(const std::string&)>& on_warning);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_FOLLOW_H_
