// One StreamLogs call: collects the output of a job's replicas from where it is kept, run after run:
// a run is the groups from one start of all replicas to the next, with all that came and went by re-scaling
// in place. Within a run that has ended the lines are merged by their time; those of one that still goes on
// come as they are written. Each source is read one message ahead, so a slow reader slows their
// streams down instead of filling memory. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_STREAM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_STREAM_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/log_service.pb.h"
#include "libs/logs/line_filter.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/pull_reactor.h"
#include "services/supervisor/logs/log_locations.h"
#include "services/supervisor/logs/log_readers.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {

class LogStream final : public PullReactor<v1::StreamLogsResponse>, public ChangeListener {
 public:
  LogStream(const LogLocations* locations, const Lanes* lanes, const std::string& caller, LogReaders* readers,
            const std::string& job_uid, const v1::StreamLogsRequest& request)
      : PullReactor(lanes->readers, lanes->durability, caller),
        locations_(locations),
        readers_(readers),
        job_uid_(job_uid),
        request_(request),
        since_(request.has_since() ? ToTime(request.since()) : absl::InfinitePast()) {}

  static absl::Status Validate(const v1::StreamLogsRequest& request);

  void OnChanges(const Changes& /*changes*/) override { Poke(); }

 protected:
  Pull Next(v1::StreamLogsResponse* message, grpc::Status* end) override;
  void OnEnd() override;

 private:
  // The output of one replica.
  struct Source {
    LogLocation location;
    std::shared_ptr<LogReader> reader;
    // Whoever reads for us may be older than filters are, or know only whole seconds. Null: all lines are wanted.
    std::unique_ptr<logs::LineFilter> filter;
    // Lines that were read and not passed on.
    std::deque<v1::LogLine> lines;
    // Followed, but it was not said yet that it runs: there may be no log yet.
    bool pending = false;
    bool has_begun = false;
    bool done = false;
    // Why there is nothing (more) to read, to be told.
    std::string warning;
  };

  // Opens the sources of the next run. False: there is none (yet); `end` and `over` say whether there can be
  // one.
  bool OpenNextRun(bool* over, grpc::Status* end);
  // Opens the sources that have come to the run that is being followed.
  void OpenNewcomers();
  // Those of `locations` that belong to the run which begins at run_begin_, and are wanted: replicas that
  // were members of a group at the same time, of which others were before, and so on. Sets run_end_.
  std::vector<LogLocation> Run(std::vector<LogLocation> locations);
  bool Wanted(const LogLocation& location) const;
  void AddSources(std::vector<LogLocation> locations);
  // Opens the sources whose replicas run by now.
  void OpenPending();
  void Open(Source* source);
  // There is nothing (more) of it.
  static void Fail(absl::string_view why, Source* source);
  // Takes what has arrived.
  void Fetch(Source* source);
  static void Keep(logs::Lines* lines, Source* source);
  void AddLines(v1::StreamLogsResponse* message);
  // The source whose next line is the oldest. Null: none has one, or (when merging) one has yet to be heard.
  Source* Oldest();

  const LogLocations* const locations_;
  LogReaders* const readers_;
  const std::string job_uid_;
  const v1::StreamLogsRequest request_;
  const absl::Time since_;
  // The rest is used in Next() only, and after it in OnEnd().
  std::vector<std::unique_ptr<Source>> sources_;
  // First and last group of the run.
  int64_t run_begin_ = 0;
  int64_t run_end_ = 0;
  // Current group of the job when its replicas were last looked at.
  int64_t known_group_ = 0;
  // Whether the run has ended, so that its lines can be put in order.
  bool merging_ = false;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_STREAM_H_
