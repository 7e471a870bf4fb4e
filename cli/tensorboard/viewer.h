// Shows what the jobs of a TensorBoard log, by the program "tensorboard" of this machine, until it ends or is interrupted.
//
// For one thread.

#ifndef ADAPTDL_CLI_TENSORBOARD_VIEWER_H_
#define ADAPTDL_CLI_TENSORBOARD_VIEWER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/context.h"

namespace adaptdl::cli {

struct ViewerOptions {
  // Of the TensorBoard.
  std::string name;
  // Where the program serves. Port 0: any free one.
  std::string address = "127.0.0.1";
  int port = 0;
  // The program, looked up in PATH when it holds no slash.
  std::string program = "tensorboard";
  // How often it is looked what has been logged since.
  absl::Duration refresh = absl::Seconds(10);
  // Of all copies here together.
  int64_t max_bytes = int64_t{8} << 30;
};

// The exit code. NOT_FOUND: no job logs there, or there is no such program.
absl::StatusOr<int> ViewBoard(const Context& context, const ViewerOptions& options);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TENSORBOARD_VIEWER_H_
