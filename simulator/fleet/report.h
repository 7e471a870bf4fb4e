// What a simulation of a fleet comes to, as text. Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_FLEET_REPORT_H_
#define ADAPTDL_SIMULATOR_FLEET_REPORT_H_

#include <string>

#include "simulator/fleet/fleet.h"

namespace adaptdl::simulator {

// For programs: one JSON object.
std::string ToJson(const FleetResult& result);
// For people.
std::string ToTable(const FleetResult& result);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_FLEET_REPORT_H_
