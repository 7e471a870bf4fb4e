// Runs a program for what it prints. Inside libs/kube/access only.
//
// Thread-safe. Blocks.

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_RUN_PROGRAM_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_RUN_PROGRAM_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adaptdl::kube {

struct RunOptions {
  // Program (looked for in PATH if it is no path) and arguments.
  std::vector<std::string> command;
  // "NAME=value", complete.
  std::vector<std::string> environment;
  // It is ended after so long, with all it has started.
  absl::Duration timeout = absl::Seconds(60);
  size_t max_bytes = size_t{1} << 20;
};

// What it wrote to its standard output; the standard error is ours. CANCELLED, DEADLINE_EXCEEDED, OUT_OF_RANGE:
// it was ended for that. FAILED_PRECONDITION: it ended with another code than 0. As Spawn: it can't be started.
absl::StatusOr<std::string> RunForOutput(const RunOptions& options, const std::stop_token& stop);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_RUN_PROGRAM_H_
