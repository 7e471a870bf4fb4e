// What Prometheus is told of each job: series "adaptdl_job_...", with the labels "namespace" and "job".
//
// Written as text at once, without prometheus-cpp's families: a thousand jobs have forty thousand series, which are gone when
// their job is, and nothing needs to be kept of them between two scrapes.
//
// Thread-safe as such; one object is used by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_WEB_JOB_SERIES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_WEB_JOB_SERIES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/base/clock.h"
#include "services/supervisor/state/job_entry.h"

namespace adaptdl::supervisor {

// What there is: for docs/metrics.md.
struct JobSeriesFamily {
  const char* name;
  const char* type;    // "gauge" or "counter"
  const char* labels;  // besides those of the job, separated by commas
  const char* help;
};
const std::vector<JobSeriesFamily>& JobSeriesFamilies();

class JobSeries {
 public:
  // At most so many jobs; more are counted.
  explicit JobSeries(size_t most) : most_(most), samples_(JobSeriesFamilies().size()) {}

  // Of a job that has not ended, or has ended less than ten minutes ago, so that its end is seen; else nothing. `cost`: what
  // it has cost so far, if that is known.
  void Add(const JobEntry& entry, std::optional<double> cost, const Moment& now);

  // All of it, in Prometheus' text format 0.0.4.
  std::string Text() const;

 private:
  void AddTraining(const v1::TrainingProgress& progress, absl::string_view labels);
  void AddPredictions(const v1::Hints& hints, absl::string_view labels);

  const size_t most_;
  size_t jobs_ = 0;
  size_t left_out_ = 0;
  std::vector<std::string> samples_;  // by family
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_WEB_JOB_SERIES_H_
