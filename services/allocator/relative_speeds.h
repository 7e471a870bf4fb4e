// How fast GPU types are, relative to each other, as jobs that ran on several of them have found.
//
//   RelativeSpeeds speeds;
//   speeds.Add({{"A100", 0.1}, {"T4", 0.3}});  // one job: seconds of compute per step
//   speeds.Ratio("T4", "A100");                // 3
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_RELATIVE_SPEEDS_H_
#define ADAPTDL_SERVICES_ALLOCATOR_RELATIVE_SPEEDS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace adaptdl::allocator {

class RelativeSpeeds {
 public:
  // What one job takes to compute the same step on each type that it has measured, in seconds. Times are
  // greater than 0.
  void Add(const std::map<std::string, double>& compute_times);

  // Throughput of one GPU of type `to` by that of one of type `from`: the median over the jobs that know
  // both; if there is none, by way of the fewest types in between. In steps of a twentieth, so that noise
  // changes nothing. Nullopt: unknown.
  std::optional<double> Ratio(const std::string& from, const std::string& to) const;

 private:
  // Logarithms of the ratios of all jobs that know both types.
  std::map<std::string, std::map<std::string, std::vector<double>>> ratios_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_RELATIVE_SPEEDS_H_
