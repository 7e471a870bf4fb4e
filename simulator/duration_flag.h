// Flags of adaptdl-sim that are durations, as in --round 60s or --duration 7d.

#ifndef ADAPTDL_SIMULATOR_DURATION_FLAG_H_
#define ADAPTDL_SIMULATOR_DURATION_FLAG_H_

#include <string>

#include "CLI/CLI.hpp"

namespace adaptdl::simulator {

// Adds an option for a duration. `*seconds` is the default, and is set to what was given; it outlives the app.
CLI::Option* AddDuration(CLI::App* app, const std::string& name, double* seconds, const std::string& help);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_DURATION_FLAG_H_
