#include "services/supervisor/traces/job_tracer.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::string_view kStart = "submit to first step";

bool HasTrained(const JobRecord& record) {
  return record.progress.has_value() && record.progress->optimizer_steps() > 0;
}

}  // namespace

void JobTracer::Begin(const std::string& uid, const tracing::Context& caller) {
  const std::shared_ptr<const JobEntry> job = core_->index().FindJob(uid);
  if (job == nullptr || jobs::IsTerminal(job->record.state.phase)) return;
  MutexLock lock(&mutex_);
  Traced& traced = Find(*job);
  if (traced.started || !traced.caller_span_id.empty()) return;
  traced.context = tracing::NewSpan(caller);
  traced.caller_span_id = caller.span_id;
}

std::string JobTracer::TraceparentOf(const JobEntry& job) {
  MutexLock lock(&mutex_);
  return tracing::Format(Find(job).context);
}

JobTracer::Traced& JobTracer::Find(const JobEntry& job) {
  const auto [found, added] = traced_.try_emplace(job.record.uid());
  if (added) {
    found->second.context = tracing::NewTrace();
    found->second.started = job.record.times.submitted < began_ && job.record.state.group > 0;
  }
  return found->second;
}

void JobTracer::OnChanges(const Changes& changes) {
  const Moment now = core_->Now();
  for (const auto& [uid, change] : changes.jobs) {
    if (const auto job = core_->index().FindJob(uid)) Look(*job, now);
  }
  MutexLock lock(&mutex_);
  for (const auto& [uid, job] : changes.deleted) traced_.erase(uid);
}

void JobTracer::Look(const JobEntry& job, const Moment& now) {
  const jobs::Job& state = job.record.state;
  MutexLock lock(&mutex_);
  if (jobs::IsTerminal(state.phase) && traced_.count(job.record.uid()) == 0) return;
  Traced& traced = Find(job);
  if (state.starting_since != absl::InfinitePast() && traced.launching == absl::InfinitePast()) {
    traced.launching = state.starting_since;
  }
  if (!traced.started && HasTrained(job.record)) EndStart(job, now, &traced);
  if (!state.plans.empty()) {
    traced.rescaling = state.plans.back().since;
    traced.ready_after = state.plans.back().ready_after;
  }
  if (state.rescaling_since != absl::InfinitePast()) {
    traced.restarting = state.rescaling_since;
  } else if (traced.restarting != absl::InfinitePast()) {
    // It was given up where nothing runs.
    if (state.phase == jobs::Phase::kRunning) EndRestart(job, now, traced);
    traced.restarting = absl::InfinitePast();
  }
  if (jobs::IsTerminal(state.phase)) traced_.erase(job.record.uid());
}

void JobTracer::EndStart(const JobEntry& job, const Moment& now, Traced* traced) {
  traced->started = true;
  const jobs::Job& state = job.record.state;
  const absl::Time submitted = job.record.times.submitted;
  const absl::Time running =
      state.running_since == absl::InfinitePast() ? now.wall : now.ToWall(state.running_since);
  const absl::Time launching =
      traced->launching == absl::InfinitePast() ? running : now.ToWall(traced->launching);
  AddPart(traced->context, "queue", submitted, launching);
  AddPart(traced->context, "launch", launching, running);
  AddPart(traced->context, "first step", running, now.wall);
  std::vector<std::pair<std::string, tracing::Value>> attributes = AttributesOf(job);
  attributes.emplace_back("adaptdl.replicas", static_cast<int64_t>(state.allocation.size()));
  tracer_->Take({.name = std::string(kStart),
                 .context = traced->context,
                 .parent_span_id = traced->caller_span_id,
                 .begin = submitted,
                 .end = now.wall,
                 .attributes = std::move(attributes)});
}

void JobTracer::EndRestart(const JobEntry& job, const Moment& now, const Traced& traced) const {
  tracer_->Take({.name = "restart",
                 .context = tracing::NewTrace(),
                 .begin = now.ToWall(traced.restarting),
                 .end = now.wall,
                 .attributes = AttributesOf(job),
                 .links = {traced.context}});
}

void JobTracer::TakeRescale(const std::string& uid, const jobs::RescaleCost& cost) {
  const std::shared_ptr<const JobEntry> job = core_->index().FindJob(uid);
  const Moment now = core_->Now();
  MutexLock lock(&mutex_);
  const auto found = traced_.find(uid);
  if (job == nullptr || found == traced_.end()) return;
  const Traced& traced = found->second;
  // The report comes with the first step; what it tells of, is told from there backwards.
  const absl::Time stepped = now.wall;
  const absl::Time synchronized = stepped - cost.first_step;
  const absl::Time rebuilt = synchronized - cost.synchronize;
  const absl::Time paused = rebuilt - cost.rebuild;
  const absl::Time planned = paused - cost.agree;
  const absl::Time decided =
      traced.rescaling == absl::InfinitePast() ? planned : std::min(now.ToWall(traced.rescaling), planned);
  const tracing::Context context = tracing::NewTrace();
  std::vector<std::pair<std::string, tracing::Value>> attributes = AttributesOf(*job);
  attributes.emplace_back("adaptdl.group", cost.group);
  attributes.emplace_back("adaptdl.replicas", static_cast<int64_t>(job->record.state.allocation.size()));
  attributes.emplace_back("adaptdl.pause_s", absl::ToDoubleSeconds(stepped - paused));
  if (traced.ready_after > absl::ZeroDuration()) {
    AddPart(context, "newcomers start", decided, decided + traced.ready_after);
  }
  AddPart(context, "agree", planned, paused);
  AddPart(context, "rebuild", paused, rebuilt);
  AddPart(context, "synchronize", rebuilt, synchronized);
  AddPart(context, "first step", synchronized, stepped);
  tracer_->Take({.name = "re-scale",
                 .context = context,
                 .begin = decided,
                 .end = stepped,
                 .attributes = std::move(attributes),
                 .links = {traced.context}});
}

void JobTracer::AddPart(const tracing::Context& parent, const std::string& name, absl::Time begin,
                        absl::Time end) const {
  tracer_->Take({.name = name,
                 .context = tracing::NewSpan(parent),
                 .parent_span_id = parent.span_id,
                 .begin = begin,
                 .end = std::max(begin, end)});
}

std::vector<std::pair<std::string, tracing::Value>> JobTracer::AttributesOf(const JobEntry& job) {
  const v1::Job& asked = *job.record.job;
  return {{"adaptdl.namespace", asked.namespace_()},
          {"adaptdl.job", asked.name()},
          {"adaptdl.job_uid", job.record.uid()}};
}

}  // namespace adaptdl::supervisor
