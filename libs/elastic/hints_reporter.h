// Decides when to report hints, and makes them from the step profile. Runs off the training thread.
//
// Thread-safety: Tick() from one thread; SetBatchSize() from any.

#ifndef ADAPTDL_LIBS_ELASTIC_HINTS_REPORTER_H_
#define ADAPTDL_LIBS_ELASTIC_HINTS_REPORTER_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "libs/elastic/control_plane.h"
#include "libs/elastic/step_profile.h"

namespace adaptdl::elastic {

class HintsReporter {
 public:
  struct Options {
    // Seconds of measured steps before the first report.
    double first_after = 5;
    // Seconds between reports, and after a failed one.
    double period = 30;
  };

  // `profile` and `control` are not owned.
  HintsReporter(const StepProfile* profile, ControlPlane* control, const Options& options)
      : profile_(profile), control_(control), options_(options) {}

  // Total batch size that the user chose. No report is made before it is known.
  void SetBatchSize(int64_t batch_size) { batch_size_ = batch_size; }

  // Reports if it is time to. `now`: monotonic seconds. True: a report was accepted.
  bool Tick(double now);

 private:
  const StepProfile* const profile_;
  ControlPlane* const control_;
  const Options options_;
  std::atomic<int64_t> batch_size_{0};
  std::optional<double> last_;
};

// What `profile` says: fitted parameters if it suffices for a fit, for each GPU type by itself. Groups that
// were on several types at once say nothing about either: they count only while they are the newest.
Hints MakeHints(const StepProfile& profile, int64_t batch_size);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_HINTS_REPORTER_H_
