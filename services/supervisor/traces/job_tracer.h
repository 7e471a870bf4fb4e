// Makes traces of what users wait for: from a job's submission to its first step, and each change of its replicas.
//
//   submit to first step      queue, launch, first step                    in the trace of the call that submitted it
//   re-scale                  newcomers start, agree, rebuild, synchronize, first step      a trace of its own
//   restart                                                                                 likewise
//
// It learns of them as watchers do, when they are durable, and from the records' own times; what re-scales consist of,
// replicas report. It keeps only what it needs until a span is over: of jobs that began before this supervisor
// did, and had been launched by then, there is no "submit to first step".
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_TRACES_JOB_TRACER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_TRACES_JOB_TRACER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/jobs/state_machine.h"
#include "libs/tracing/context.h"
#include "libs/tracing/tracer.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/job_entry.h"

namespace adaptdl::supervisor {

class JobTracer final : public ChangeListener {
 public:
  // `core` outlives it; neither is null.
  JobTracer(const Core* core, std::shared_ptr<tracing::Tracer> tracer)
      : core_(core), tracer_(std::move(tracer)), began_(core->Now().wall) {}

  // The job was submitted by a call of this trace. A repetition of that call changes nothing.
  void Begin(const std::string& uid, const tracing::Context& caller);
  // What launches and plans of the job are part of, as a header.
  std::string TraceparentOf(const JobEntry& job);
  // What a re-scale of the job has taken, as its replicas have just said.
  void TakeRescale(const std::string& uid, const jobs::RescaleCost& cost);

  void OnChanges(const Changes& changes) override;

 private:
  struct Traced {
    // The span of its start.
    tracing::Context context;
    std::string caller_span_id;
    // Whether that is over, or was before anybody looked.
    bool started = false;
    // Since when the first group was being launched.
    absl::Time launching = absl::InfinitePast();
    // Of the change in place that is under way or was the last one: since when, and how long newcomers took.
    absl::Time rescaling = absl::InfinitePast();
    absl::Duration ready_after = absl::ZeroDuration();
    // Of a restart that is under way.
    absl::Time restarting = absl::InfinitePast();
  };

  // What is known of the job: changes may be told of later than the job is launched, so whoever asks first makes it.
  Traced& Find(const JobEntry& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Look(const JobEntry& job, const Moment& now);
  // Parts before the whole, so that who has seen that has them all.
  void EndStart(const JobEntry& job, const Moment& now, Traced* traced);
  void EndRestart(const JobEntry& job, const Moment& now, const Traced& traced) const;
  // A span of `parent`; times by the wall.
  void AddPart(const tracing::Context& parent, const std::string& name, absl::Time begin,
               absl::Time end) const;
  static std::vector<std::pair<std::string, tracing::Value>> AttributesOf(const JobEntry& job);

  const Core* const core_;
  const std::shared_ptr<tracing::Tracer> tracer_;
  const absl::Time began_;
  Mutex mutex_;
  std::map<std::string, Traced> traced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_TRACES_JOB_TRACER_H_
