// What "adaptdl top" shows: lines of text that fit the terminal, whatever its size. Plain functions on values,
// thread-safe.

#ifndef ADAPTDL_CLI_TOP_FRAME_H_
#define ADAPTDL_CLI_TOP_FRAME_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "cli/description.h"
#include "cli/top/view.h"

namespace adaptdl::cli {

struct TopData {
  // Of whom it is.
  std::string supervisor;
  // Whether anything was heard yet; when it was, or when it was first asked for; and what time it is.
  bool was_heard = false;
  absl::Time heard;
  absl::Time now;
  v1::ListJobsResponse jobs;
  v1::ListNodesResponse nodes;
  // Of the job whose pane is open, as far as it was heard.
  JobSurroundings around;
  // Why nothing newer was heard. Empty: nothing is wrong.
  std::string problem;
};

struct TopSize {
  // 0: no bound.
  int width = 0;
  int height = 0;
};

// Rows of jobs, or lines of a pane, that are seen at a time.
int PageOf(const TopSize& size);

// Lines from the top to the bottom, no more than there is room for.
std::vector<std::string> TopFrame(const TopData& data, const TopView& view, const TopSize& size,
                                  bool colours);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TOP_FRAME_H_
