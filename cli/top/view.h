// What somebody who looks at "adaptdl top" has chosen to see, and what keys change of it. Plain functions on values,
// thread-safe.
//
//            Enter, →                 h, ?
//   kJobs ────────────▶ kJob     any ──────▶ kHelp
//     ▲                  │                     │
//     └──────────────────┴── Esc, ←, Backspace ┘

#ifndef ADAPTDL_CLI_TOP_VIEW_H_
#define ADAPTDL_CLI_TOP_VIEW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "cli/top/keys.h"

namespace adaptdl::cli {

enum class TopPane { kJobs, kJob, kHelp };

struct TopView {
  TopPane pane = TopPane::kJobs;
  // One of SortKeys().
  std::string sort = "submitted";
  bool reverse = false;
  // Only jobs with this text in their name, namespace or status.
  std::string filter = {};
  // Whether keys go into the filter.
  bool is_typing = false;
  // Jobs that have ended, too.
  bool finished_too = false;
  bool paused = false;
  // "namespace/name" of the job that is pointed at. Empty, or one that is not there: the first.
  std::string selected = {};
  // First line of the job's pane.
  int scroll = 0;
  bool quits = false;
};

// The jobs that are shown, in their order.
std::vector<const v1::Job*> ShownJobs(const v1::ListJobsResponse& jobs, const TopView& view, absl::Time now);

// Where the job that is pointed at stands in them. 0 if it is not there.
int SelectedRow(const std::vector<const v1::Job*>& shown, const TopView& view);

// What is pointed at, and chosen, after the key. `page`: rows that are seen at a time.
void PressKey(const Key& key, const std::vector<const v1::Job*>& shown, int page, TopView* view);

// "namespace/name".
std::string NameOf(const v1::Job& job);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TOP_VIEW_H_
