// TensorBoards as the jobs that log to them.
//
// Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_TENSORBOARD_BOARDS_H_
#define ADAPTDL_CLI_TENSORBOARD_BOARDS_H_

#include <string>
#include <vector>

#include "adaptdl/v1/job_service.pb.h"

namespace adaptdl::cli {

struct Board {
  std::string name;
  // In order of submission.
  std::vector<std::string> jobs;
  // How many of them have not finished.
  int unfinished = 0;
};

// By name.
std::vector<Board> BoardsOf(const v1::ListJobsResponse& jobs);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TENSORBOARD_BOARDS_H_
