// The command `adaptdl-sim fleet`.

#ifndef ADAPTDL_SIMULATOR_FLEET_COMMAND_H_
#define ADAPTDL_SIMULATOR_FLEET_COMMAND_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "simulator/fleet/fleet.h"

namespace adaptdl::simulator {

class FleetCommand {
 public:
  // Adds itself to the app, which outlives it.
  explicit FleetCommand(CLI::App* app);

  // Whether it was asked for.
  bool given() const { return command_->parsed(); }
  // The text for the standard output.
  absl::StatusOr<std::string> Run() const;

 private:
  CLI::App* const command_;
  FleetOptions options_;
  bool json_ = false;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_FLEET_COMMAND_H_
