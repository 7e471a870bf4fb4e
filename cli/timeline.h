// Jobs over time as text: one row per job, one column per second or so, the digit = replicas.
//
//   a   .111122222111111222
//   b        ..11111
//       0s        10s
//
// Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_TIMELINE_H_
#define ADAPTDL_CLI_TIMELINE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/history_service.pb.h"
#include "adaptdl/v1/job_service.pb.h"

namespace adaptdl::cli {

struct TimelineRow {
  std::string name;
  // From its submission to its end; an end in the infinite future means "not yet".
  absl::Time begin;
  absl::Time end = absl::InfiniteFuture();
  // Number of replicas from each time on, in order of time. Before the first: none.
  struct Change {
    absl::Time time;
    int replicas;
  };
  std::vector<Change> changes;
};

// The rows of `jobs`, in order of submission, from their events.
std::vector<TimelineRow> TimelineRows(const v1::ListJobsResponse& jobs, const v1::ListEventsResponse& events);

// The rows of `timelines`, in their order.
std::vector<TimelineRow> TimelineRows(const v1::ListTimelinesResponse& timelines);

// Lines of at most `width` columns (but no fewer than ten for the chart). A column shows what held for most
// of its time: '.' no replicas, '1' to '9', 'a' to 'z' for 10 to 35, '+' for more.
std::string RenderTimeline(const std::vector<TimelineRow>& rows, absl::Time now, int width);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TIMELINE_H_
