// Amounts of what nodes offer and replicas ask for. Plain values; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_RESOURCES_H_
#define ADAPTDL_LIBS_SCHEDULING_RESOURCES_H_

#include <cstdint>
#include <map>
#include <string>

namespace adaptdl::scheduling {

// By name: "cpu" in thousandths of a core, "memory" in bytes, "gpu" in whole devices, others in base units.
// What is not there is 0.
using Resources = std::map<std::string, int64_t>;

inline constexpr char kCpu[] = "cpu";
inline constexpr char kMemory[] = "memory";
inline constexpr char kGpu[] = "gpu";
// Begins the names of resources that stand for a place on one of the nodes that a rule admits: those nodes have plenty
// of it. The rest of the name says which nodes these are, for people.
inline constexpr char kPlacePrefix[] = "place: ";
bool IsPlace(const std::string& name);

// How many times `request` fits into `capacity`; at most `limit`.
int64_t TimesThatFit(const Resources& request, const Resources& capacity, int64_t limit);

// "1 CPU", "2 GPUs", "512 MiB of memory", "3 example.com/fpga".
std::string DescribeAmount(const std::string& name, int64_t amount);

// All amounts that are not 0, joined by ", ".
std::string Describe(const Resources& resources);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_RESOURCES_H_
