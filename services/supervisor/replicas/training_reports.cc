#include "services/supervisor/replicas/training_reports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/jobs/state_machine.h"
#include "libs/service/log.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/jobs/group.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// Whether a node says of a replica that runs what is wrong with its checkpoints (ReplicaObserver).
bool NodeComplains(const JobEntry& job) {
  return std::any_of(job.replicas.begin(), job.replicas.end(), [](const auto& replica) {
    return replica->replica.state() == v1::REPLICA_STATE_RUNNING && !replica->replica.message().empty();
  });
}

}  // namespace

absl::Status TrainingReports::ObserveBroken(const ReplicaContext& replica, int64_t group,
                                            const std::string& reason) {
  return core_->Update([&](Transaction* transaction) -> absl::Status {
    const JobEntry* job = transaction->FindJob(replica.job_uid);
    if (job == nullptr || jobs::IsTerminal(job->record.state.phase)) return GroupOver(replica.group);
    // It has gone on since, or will: there is a newer one.
    if (group < job->record.state.group) return absl::OkStatus();
    const auto known = job->broken.find(replica.replica_id);
    if (known != job->broken.end() && known->second.group == group) return absl::OkStatus();
    JobEntry* edited = transaction->EditJobInMemory(replica.job_uid);
    edited->broken[replica.replica_id] = {group, transaction->now()};
    // The next step looks at the job in any case.
    if (!limiter_->Take(replica.replica_id, transaction->now())) {
      transaction->KeepQuiet();
      return absl::OkStatus();
    }
    const v1::Job& user_job = *edited->record.job;
    transaction->EffectsOf(replica.job_uid)
        ->reports.emplace_back([job = absl::StrCat(user_job.namespace_(), "/", user_job.name()), group,
                                replica = replica.replica_id, reason](Metrics*) {
          log::Warning(
              "group broken",
              {{"job", job}, {"group", absl::StrCat(group)}, {"replica", replica}, {"reason", reason}});
        });
    reconciler_->Reconcile(transaction, replica.job_uid);
    return absl::OkStatus();
  });
}

absl::Status TrainingReports::ObserveRescale(const ReplicaContext& replica, const v1::RescaleTimes& times) {
  if (const absl::Status status = ValidateRescaleTimes(times); !status.ok()) return status;
  return core_->Update([&](Transaction* transaction) -> absl::Status {
    const JobEntry* entry = transaction->FindJob(replica.job_uid);
    if (entry == nullptr) return GroupOver(replica.group);
    jobs::Job job = entry->record.state;
    jobs::Event event;
    const jobs::RescaleCost measured = {times.group(), ToDuration(times.agree()), ToDuration(times.rebuild()),
                                        ToDuration(times.synchronize()), ToDuration(times.first_step())};
    if (!jobs::ObserveRescale(measured, &job, &event)) return absl::OkStatus();
    SetState(std::move(job), transaction->moment(), &transaction->EditJob(replica.job_uid)->record);
    transaction->AddEvent(replica.job_uid, event);
    transaction->EffectsOf(replica.job_uid)->rescale_phases = {{"agree", measured.agree},
                                                               {"rebuild", measured.rebuild},
                                                               {"synchronize", measured.synchronize},
                                                               {"first_step", measured.first_step}};
    if (tracer_ != nullptr) {
      transaction->EffectsOf(replica.job_uid)
          ->reports.emplace_back([tracer = tracer_, uid = replica.job_uid, measured](Metrics*) {
            tracer->TakeRescale(uid, measured);
          });
    }
    return absl::OkStatus();
  });
}

absl::Status TrainingReports::ObserveCheckpoint(const ReplicaContext& replica,
                                                const v1::CheckpointResult& result) {
  if (const absl::Status status = ValidateCheckpointResult(result); !status.ok()) return status;
  const bool fails = !result.error().empty();
  const std::string text =
      fails ? absl::StrCat("no checkpoint was written after step ", result.step(),
                           ", the one before stays and training goes on: ", result.error())
            : absl::StrCat("checkpoints can be written again, the first after step ", result.step());
  const jobs::Event event = {fails, fails ? "CheckpointFailed" : "CheckpointWritten", text, "",
                             replica.replica_id};
  return core_->Update([&](Transaction* transaction) -> absl::Status {
    const JobEntry* job = transaction->FindJob(replica.job_uid);
    if (job == nullptr) return GroupOver(replica.group);
    // Written there, it is still not where other nodes find it.
    if (!fails && NodeComplains(*job)) return absl::OkStatus();
    limiter_->ReportCheckpoint(transaction, replica.job_uid, result.error(), event);
    return absl::OkStatus();
  });
}

absl::Status TrainingReports::ObserveTraining(const ReplicaContext& replica) {
  return core_->Update([&](Transaction* transaction) -> absl::Status {
    const JobEntry* entry = transaction->FindJob(replica.job_uid);
    if (entry == nullptr || jobs::IsTerminal(entry->record.state.phase)) return GroupOver(replica.group);
    // The last words of a group that is being stopped, or that others have left, say nothing about the next
    // one.
    const bool old = !IsCurrent(*entry, replica.group) || entry->record.state.phase == jobs::Phase::kStopping;
    if (old || entry->record.state.rescaling_since == absl::InfinitePast()) return absl::OkStatus();
    jobs::Job job = entry->record.state;
    jobs::EndRescale(transaction->now(), &job);
    SetState(std::move(job), transaction->moment(), &transaction->EditJob(replica.job_uid)->record);
    return absl::OkStatus();
  });
}

absl::Status TrainingReports::ReportHints(const ReplicaContext& replica, const v1::Hints& hints) {
  if (const absl::Status status = ValidateHints(hints); !status.ok()) {
    NoteRefused(replica, "hints", status);
    return status;
  }
  progress_->Keep(replica.job_uid, hints);
  return absl::OkStatus();
}

void TrainingReports::NoteRefused(const ReplicaContext& replica, const std::string& kind,
                                  const absl::Status& why) {
  if (Metrics* metrics = core_->metrics()) metrics->CountRefusedReport(kind);
  const std::string text = absl::StrCat(
      kind,
      " that its program reports make no sense and are left aside, as all such from now on: ", why.message());
  const auto tell = [&](Transaction* transaction) {
    const std::string& uid = replica.job_uid;
    const JobEntry* job = transaction->FindJob(uid);
    if (job == nullptr || job->told_of_reports) return absl::OkStatus();
    const int index = FindMember(job->replicas, replica.replica_id);
    const std::string node = index < 0 ? "" : job->replicas[index]->replica.node_id();
    transaction->EditJob(uid)->told_of_reports = true;
    transaction->AddEvent(uid, {true, "ReportRefused", text, node, replica.replica_id});
    return absl::OkStatus();
  };
  // Without the event the report is refused all the same.
  core_->Update(tell).IgnoreError();
}

}  // namespace adaptdl::supervisor
