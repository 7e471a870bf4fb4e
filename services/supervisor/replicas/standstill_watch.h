// Notices jobs that run and take no steps any more, and tells their users: once, by an event and the job's status, with who
// is silent or does nothing, or whom the others wait for, and again when they go on. It ends nothing: a program may have its reasons.
//
// What it knows is soft: a supervisor that begins counts from then. Used by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_STANDSTILL_WATCH_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_STANDSTILL_WATCH_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "services/supervisor/jobs/pulse_source.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/job_entry.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class StandstillWatch {
 public:
  // No job stands before it has taken no step for so long, and for so many of its usual steps.
  static constexpr absl::Duration kShortest = absl::Minutes(2);
  static constexpr int kUsualSteps = 20;
  // Nor before it has stood so many times as long as it did before and went on: it evaluates, say.
  static constexpr int kLongestPauses = 2;

  // Both outlive it. `silence`: replicas without a heartbeat for longer are silent.
  StandstillWatch(Core* core, PulseSource* pulses, absl::Duration silence)
      : core_(core), pulses_(pulses), silence_(silence) {}

  void Step();

 private:
  struct Watched {
    int64_t group = 0;
    int64_t steps = 0;
    // When they became as many as they are.
    absl::Time since;
    // The longest time without a step after which one was taken, in any group.
    absl::Duration longest_pause;
    // How many they were when the standstill was told of. Zero: it was not.
    int64_t told_at = 0;
  };

  // What becomes of a job's watch, and whether something is to be told.
  bool Observe(const JobEntry& job, absl::Time now, Watched* watched) const;
  void Tell(Transaction* transaction, const std::string& uid, Watched* watched) const;
  // Who is to blame, as far as heartbeats tell, and the event about it.
  jobs::Event Describe(const JobEntry& job, absl::Duration standstill, absl::Time now) const;

  Core* const core_;
  PulseSource* const pulses_;
  const absl::Duration silence_;
  absl::Time next_ = absl::InfinitePast();
  // By uid, of jobs that have taken a step and have not finished.
  std::map<std::string, Watched> watched_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_STANDSTILL_WATCH_H_
