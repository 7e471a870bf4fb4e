// What users of a fleet submit, as a stream without end, by documented distributions and a seed:
//
//   arrivals     Poisson, with a wave of the day (busiest at 15:00, 1 +- 0.4 of the mean) and one of the week (Saturday and Sunday
//                0.6 of a working day); the time begins on a Monday, 0:00
//   tenants      Zipf: the second largest submits half as much as the largest, and so on
//   kinds        by their parts (model_kinds.h)
//   work         log-normal with sigma 1.6 about the median of the kind, cut off at 3 sigma: the longest of a thousand jobs is a
//                hundred times as long as the median, and a tenth of the jobs makes three fifths of the work
//
// The same on every machine with the same mathematical library. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_FLEET_SUBMISSIONS_H_
#define ADAPTDL_SIMULATOR_FLEET_SUBMISSIONS_H_

#include <cstdint>
#include <vector>

#include "simulator/random.h"

namespace adaptdl::simulator {

struct Submission {
  // Seconds since the start.
  double time = 0;
  // Counts from 0.
  int64_t number = 0;
  int tenant = 0;
  int kind = 0;
  // Time of all its work on one reference GPU, in seconds.
  double solo_seconds = 0;
};

struct SubmissionOptions {
  // Mean of whole weeks. Greater than 0.
  double jobs_per_hour = 0;
  // At least 1.
  int tenants = 1;
  uint64_t seed = 1;
};

class SubmissionStream {
 public:
  explicit SubmissionStream(const SubmissionOptions& options);

  // In order of time.
  Submission Next();

  // Part of the submissions that a tenant makes, and all tenants up to it.
  double TenantPart(int tenant) const;

 private:
  const double most_per_second_;
  RandomStream random_;
  std::vector<double> tenants_;  // cumulative parts
  std::vector<double> kinds_;    // cumulative parts
  double time_ = 0;
  int64_t count_ = 0;
};

// How many submissions come at this time, by the mean of a week.
double Wave(double time);

// Mean time of a job's work on one reference GPU, in seconds.
double MeanSoloSeconds();

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_FLEET_SUBMISSIONS_H_
