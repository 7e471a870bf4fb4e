// adaptdl: submits and follows training jobs, and runs a local cluster. See docs/cli.md.

#include <csignal>
#include <string>
#include <vector>

#include "cli/app.h"
#include "libs/base/clock.h"

int main(int argc, char** argv) {
  // A reader that goes away ("adaptdl logs | head") ends the program quietly, as it does others.
  std::signal(SIGPIPE, SIG_DFL);
  return adaptdl::cli::Run(std::vector<std::string>(argv + 1, argv + argc), adaptdl::RealClock());
}
