// Decides when to report hints, and makes them from the step profile. Runs off the training thread.
//
// Thread-safety: Tick() from one thread; the setters from any.

#ifndef ADAPTDL_LIBS_ELASTIC_PROFILE_HINTS_REPORTER_H_
#define ADAPTDL_LIBS_ELASTIC_PROFILE_HINTS_REPORTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/profile/step_profile.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::elastic {

// What a job knows of itself besides its step times.
struct JobTraits {
  // Total batch size that the user chose. 0: not known yet.
  int64_t init_batch_size = 0;
  // What else the job may use. max_batch_size 0: the batch size stays.
  goodput::BatchLimits limits;
  std::optional<goodput::GradParams> grad_params;
};

class HintsReporter {
 public:
  struct Options {
    // Seconds of measured steps before the first report, and before one that comes ahead of its time as it tells of
    // more replicas than any before.
    double first_after = 5;
    // Seconds between reports, and after a failed one.
    double period = 30;
  };

  // `profile` and `control` are not owned.
  HintsReporter(const StepProfile* profile, ControlPlane* control, const Options& options)
      : profile_(profile), control_(control), options_(options) {}

  // No report is made before the initial batch size is known.
  void SetBatchSize(int64_t init_batch_size, const goodput::BatchLimits& limits = {});
  void SetGradParams(const goodput::GradParams& grad);

  // Reports if it is time to. `now`: monotonic seconds. True: a report was accepted.
  bool Tick(double now);

 private:
  // Whether there have been enough steps of more replicas than the last report told of.
  bool HasGrown();

  const StepProfile* const profile_;
  ControlPlane* const control_;
  const Options options_;
  std::optional<double> last_;
  // Most replicas that the last report told of, and that were measured; the seconds of measured steps when these were
  // first seen.
  int told_replicas_ = 0;
  int measured_replicas_ = 0;
  double measured_from_ = 0;
  Mutex mutex_;
  JobTraits traits_ ABSL_GUARDED_BY(mutex_);
};

// The throughput model that fits what was measured on these GPU types (as ProfileKey::gpu_types). nullopt:
// too little was, or it can't be fitted (said on stderr).
std::optional<goodput::PerfParams> FitProfile(const StepProfile& profile,
                                              const std::vector<std::string>& gpu_types = {});

// What `profile` and `traits` say: fitted parameters if the profile suffices for a fit, for each GPU type by
// itself. Groups that were on several types at once say nothing about either: they count only while they are
// the newest.
Hints MakeHints(const StepProfile& profile, const JobTraits& traits);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_PROFILE_HINTS_REPORTER_H_
