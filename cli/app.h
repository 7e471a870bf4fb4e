// The command line as a whole. Not thread-safe.

#ifndef ADAPTDL_CLI_APP_H_
#define ADAPTDL_CLI_APP_H_

#include <string>
#include <vector>

#include "libs/base/clock.h"

namespace adaptdl::cli {

// Carries out "adaptdl <arguments>" and returns the exit code.
int Run(const std::vector<std::string>& arguments, const Clock& clock);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_APP_H_
