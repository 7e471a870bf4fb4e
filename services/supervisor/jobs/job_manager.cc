#include "services/supervisor/jobs/job_manager.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/jobspec/job_spec.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/state/job_status.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

bool Matches(const v1::ListJobsRequest& request, const v1::Job& job, v1::JobPhase phase) {
  if (!request.phases().empty() &&
      std::find(request.phases().begin(), request.phases().end(), phase) == request.phases().end()) {
    return false;
  }
  return std::all_of(request.labels().begin(), request.labels().end(), [&](const auto& label) {
    const auto it = job.labels().find(label.first);
    return it != job.labels().end() && it->second == label.second;
  });
}

absl::Status NoSuchJob(const std::string& name_space, const std::string& name) {
  return absl::NotFoundError(absl::StrCat("job \"", name, "\" does not exist in namespace \"", name_space,
                                          "\"; \"adaptdl ls\" lists those there are"));
}

absl::Status HasFinished(const JobEntry& job) {
  return absl::FailedPreconditionError(absl::StrCat("job \"", job.record.job->name(),
                                                    "\" has finished already (",
                                                    jobs::PhaseName(job.record.state.phase), ")"));
}

void TakeWishes(const v1::UpdateJobRequest& request, v1::JobSpec* spec) {
  if (request.has_min_replicas()) spec->set_min_replicas(request.min_replicas());
  if (request.has_max_replicas()) spec->set_max_replicas(request.max_replicas());
  if (request.has_priority()) spec->set_priority(request.priority());
  if (request.has_suspend()) spec->set_suspend(request.suspend());
}

// The user's job as it is to be. FAILED_PRECONDITION: it has finished.
absl::StatusOr<std::shared_ptr<v1::Job>> Updated(const JobEntry& entry, const v1::UpdateJobRequest& request) {
  if (jobs::IsTerminal(entry.record.state.phase)) return HasFinished(entry);
  auto job = std::make_shared<v1::Job>(*entry.record.job);
  TakeWishes(request, job->mutable_spec());
  const absl::Status status = jobspec::CheckUpdated(job->spec());
  if (!status.ok()) return status;
  return job;
}

// Of all but whether it is held. Empty: nothing.
std::string DescribeUpdate(const v1::JobSpec& before, const v1::JobSpec& after) {
  std::vector<std::string> changes;
  const auto compare = [&](const char* field, int from, int to) {
    if (from != to) changes.push_back(absl::StrCat(field, " from ", from, " to ", to));
  };
  compare("min_replicas", before.min_replicas(), after.min_replicas());
  compare("max_replicas", before.max_replicas(), after.max_replicas());
  compare("priority", before.priority(), after.priority());
  return absl::StrJoin(changes, ", ");
}

}  // namespace

absl::Status JobManager::WhyNone(const std::string& name_space, const std::string& name) const {
  if (core_->unreadable_jobs().count({name_space, name}) == 0) return NoSuchJob(name_space, name);
  return absl::DataLossError(absl::StrCat("job \"", name, "\" of namespace \"", name_space,
                                          "\": its record can't be read; ask an administrator to look at it "
                                          "(adaptdl admin check)"));
}

absl::StatusOr<v1::SubmitJobResponse> JobManager::SubmitJob(v1::SubmitJobRequest request,
                                                            const std::string& caller) {
  v1::Job* job = request.mutable_job();
  job->set_namespace_(NamespaceOr(job->namespace_()));
  const RequestKey key = KeyOf(caller, job->namespace_(), request);
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(jobspec::CheckNewJob(*job, request.generate_name(), kind_));
  if (!status.ok()) return status;
  jobspec::FillDefaults(job->mutable_spec());
  // Outside of the state's lock, as the disk is asked. What is there now stays for long enough to be named by the job.
  if (absl::Status there = CheckCode(*job); !there.ok()) return there;
  if (registrar_ != nullptr) return SubmitThere(request, key);
  return core_->UpdateOnce<v1::SubmitJobResponse>(
      key, [&](Transaction* transaction) { return AddJob(transaction, request); });
}

absl::Status JobManager::CheckCode(const v1::Job& job) const {
  if (!job.spec().template_().has_code()) return absl::OkStatus();
  if (code_ != nullptr) return code_->Require(job.namespace_(), job.spec().template_().code());
  return absl::FailedPreconditionError(
      "spec.template.code: this supervisor keeps no folders of jobs; submit the command alone");
}

absl::StatusOr<std::string> JobManager::ChooseName(const Transaction& transaction,
                                                   const v1::SubmitJobRequest& request) const {
  const std::string& name_space = request.job().namespace_();
  const auto taken = [&](const std::string& name) {
    return core_->unreadable_jobs().count({name_space, name}) > 0 ||
           transaction.FindJobByName(name_space, name) != nullptr;
  };
  const std::string& wanted = request.job().name();
  if (!wanted.empty() && !taken(wanted)) return wanted;
  if (!wanted.empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat("job.name: \"", wanted, "\" is taken in namespace \"", name_space,
                     "\"; choose another name, or delete that job when it has finished"));
  }
  while (true) {
    std::string name = absl::StrCat(request.generate_name(), random_hex_(3));
    if (!taken(name)) return name;
  }
}

absl::Status JobManager::ResolveStart(const Transaction& transaction, v1::Job* job) {
  if (!job->spec().has_start_from()) return absl::OkStatus();
  v1::StartPoint* start = job->mutable_spec()->mutable_start_from();
  const JobEntry* other = transaction.FindJobByName(job->namespace_(), start->job());
  if (other == nullptr) {
    return absl::NotFoundError(absl::StrCat("spec.start_from.job: there is no job \"", start->job(),
                                            "\" in namespace \"", job->namespace_(),
                                            "\"; name one whose checkpoint is to be begun with"));
  }
  start->set_job_uid(other->record.uid());
  return absl::OkStatus();
}

absl::StatusOr<v1::SubmitJobResponse> JobManager::AddJob(Transaction* transaction,
                                                         const v1::SubmitJobRequest& request) {
  const absl::StatusOr<std::string> name = ChooseName(*transaction, request);
  if (!name.ok()) return name.status();
  const absl::Status allowed = quotas_->CheckSubmission(*transaction, request.job().namespace_());
  if (!allowed.ok()) return allowed;
  transaction->NoteSubmission(request.job().namespace_());
  auto job = std::make_shared<v1::Job>(request.job());
  if (absl::Status status = ResolveStart(*transaction, job.get()); !status.ok()) return status;
  job->clear_status();
  job->set_name(*name);
  job->set_uid(random_hex_(16));
  v1::SubmitJobResponse response;
  *response.mutable_job() =
      DescribeJob(*AddRecord(transaction, job, transaction->wall()), transaction->now());
  return response;
}

const JobEntry* JobManager::AddRecord(Transaction* transaction, std::shared_ptr<const v1::Job> job,
                                      absl::Time submitted) {
  const std::string uid = job->uid();
  JobRecord record;
  record.state = NewState(*job);
  record.state.reason = "Queued";
  record.state.message = "waits for an allocation";
  record.times.submitted = submitted;
  record.job = std::move(job);
  const JobEntry* entry = transaction->AddJob(std::move(record));
  transaction->AddEvent(uid, {false, "Submitted", "submitted; waits for an allocation", "", ""});
  return entry;
}

void JobManager::SetRegistrar(JobRegistrar* registrar, jobspec::ReplicaKind kind) {
  registrar_ = registrar;
  kind_ = kind;
}

absl::StatusOr<v1::SubmitJobResponse> JobManager::SubmitThere(const v1::SubmitJobRequest& request,
                                                              const RequestKey& key) {
  const std::string& name_space = request.job().namespace_();
  const absl::Status allowed = core_->Update(
      [&](Transaction* transaction) { return quotas_->CheckSubmission(*transaction, name_space); });
  if (!allowed.ok()) return allowed;
  const absl::StatusOr<v1::Job> created = registrar_->Create(request.job(), request.generate_name(), key);
  if (!created.ok()) return created.status();
  return core_->UpdateOnce<v1::SubmitJobResponse>(
      key, [&](Transaction* transaction) -> absl::StatusOr<v1::SubmitJobResponse> {
        // Whoever watches may have been faster.
        const JobEntry* entry = transaction->FindJob(created->uid());
        if (entry == nullptr) {
          if (transaction->FindJobByName(name_space, created->name()) != nullptr) {
            return absl::UnavailableError(
                absl::StrCat("job \"", created->name(), "\" of before still ends; try again"));
          }
          transaction->NoteSubmission(name_space);
          entry = AddRecord(transaction, std::make_shared<v1::Job>(*created), transaction->wall());
        }
        v1::SubmitJobResponse response;
        *response.mutable_job() = DescribeJob(*entry, transaction->now());
        return response;
      });
}

absl::Status JobManager::AdoptJob(v1::Job job, absl::Time submitted, const absl::Status& valid) {
  return core_->Update([&](Transaction* transaction) -> absl::Status {
    if (transaction->FindJob(job.uid()) != nullptr) return absl::OkStatus();
    if (transaction->FindJobByName(job.namespace_(), job.name()) != nullptr) {
      return absl::UnavailableError(absl::StrCat("job \"", job.name(), "\" of before still ends"));
    }
    const std::string uid = job.uid();
    AddRecord(transaction, std::make_shared<v1::Job>(job), submitted);
    if (valid.ok()) return absl::OkStatus();
    jobs::Job& state = transaction->EditJob(uid)->record.state;
    state.phase = jobs::Phase::kFailed;
    state.reason = "InvalidSpec";
    state.message = std::string(valid.message());
    state.completion_time = transaction->now();
    transaction->EditJob(uid)->record.times.completed = transaction->wall();
    transaction->AddEvent(uid, {true, "InvalidSpec", state.message, "", ""});
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> JobManager::AbandonJob(const std::string& uid) {
  bool gone = false;
  const absl::Status status = core_->Update([&](Transaction* transaction) {
    const JobEntry* entry = transaction->FindJob(uid);
    gone = entry == nullptr;
    if (gone) return absl::OkStatus();
    if (!entry->record.state.cancel_requested) {
      transaction->EditJob(uid)->record.state.cancel_requested = true;
      reconciler_->Reconcile(transaction, uid);
    }
    const JobEntry* now = transaction->FindJob(uid);
    const bool live = std::any_of(now->replicas.begin(), now->replicas.end(),
                                  [](const auto& replica) { return IsLive(replica->replica); });
    if (!jobs::IsTerminal(now->record.state.phase) || live) return absl::OkStatus();
    transaction->DeleteJob(uid);
    gone = true;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return gone;
}

v1::Job JobManager::Describe(const JobEntry& entry, absl::Time now) const {
  v1::Job job = DescribeJob(entry, now);
  const std::optional<double> cost = costs_->CostOf(entry.record.uid());
  if (cost.has_value()) job.mutable_status()->set_cost(*cost);
  return job;
}

absl::StatusOr<v1::Job> JobManager::GetJob(const std::string& name_space, const std::string& name) const {
  const std::shared_ptr<const JobEntry> entry = core_->index().FindJob(NamespaceOr(name_space), name);
  if (entry == nullptr) return WhyNone(NamespaceOr(name_space), name);
  return Describe(*entry, core_->Now());
}

absl::StatusOr<v1::Job> JobManager::GetJobByUid(const std::string& uid) const {
  const std::shared_ptr<const JobEntry> entry = core_->index().FindJob(uid);
  if (entry == nullptr) return absl::NotFoundError("the job was deleted");
  return Describe(*entry, core_->Now());
}

absl::StatusOr<v1::ListJobsResponse> JobManager::ListJobs(const v1::ListJobsRequest& request) const {
  const absl::StatusOr<int> page_size = ParsePageSize(request.page_size());
  if (!page_size.ok()) return page_size.status();
  const absl::StatusOr<int64_t> token = ParsePageToken(request.page_token());
  if (!token.ok()) return token.status();
  const std::string name_space = NamespaceOr(request.namespace_());
  v1::ListJobsResponse response;
  size_t bytes = 0;
  int64_t last = 0;
  for (int64_t after = *token;;) {
    const std::vector<std::shared_ptr<const JobEntry>> batch =
        core_->index().JobsAfter(name_space, after, kReadBatch);
    for (const std::shared_ptr<const JobEntry>& entry : batch) {
      after = entry->record.sequence;
      if (!Matches(request, *entry->record.job, ToProto(entry->record.state.phase))) continue;
      if (response.jobs_size() == *page_size || bytes > kMaxPageBytes) {
        response.set_next_page_token(absl::StrCat(last));
        return response;
      }
      *response.add_jobs() = Describe(*entry, core_->Now());
      bytes += response.jobs(response.jobs_size() - 1).ByteSizeLong();
      last = after;
    }
    if (batch.size() < kReadBatch) return response;
  }
}

std::vector<std::string> JobManager::JobUids(const std::string& name_space) const {
  std::vector<std::string> uids;
  for (int64_t after = 0;;) {
    const std::vector<std::shared_ptr<const JobEntry>> batch =
        core_->index().JobsAfter(NamespaceOr(name_space), after, kReadBatch);
    for (const std::shared_ptr<const JobEntry>& entry : batch) uids.push_back(entry->record.uid());
    if (batch.size() < kReadBatch) return uids;
    after = batch.back()->record.sequence;
  }
}

absl::StatusOr<v1::UpdateJobResponse> JobManager::UpdateJob(const v1::UpdateJobRequest& request,
                                                            const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const std::string name_space = NamespaceOr(request.namespace_());
  if (registrar_ != nullptr) {
    const std::shared_ptr<const JobEntry> entry = core_->index().FindJob(name_space, request.name());
    if (entry == nullptr) return WhyNone(name_space, request.name());
    const absl::StatusOr<std::shared_ptr<v1::Job>> job = Updated(*entry, request);
    if (!job.ok()) return job.status();
    // Once it is there it is told, whether this call goes on or not.
    if (const absl::Status there = registrar_->Update(**job); !there.ok()) return there;
  }
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::UpdateJobResponse> {
    const JobEntry* entry = transaction->FindJobByName(name_space, request.name());
    if (entry == nullptr) return WhyNone(name_space, request.name());
    const absl::StatusOr<std::shared_ptr<v1::Job>> job = Updated(*entry, request);
    if (!job.ok()) return job.status();
    TakeUpdate(transaction, *job);
    v1::UpdateJobResponse response;
    *response.mutable_job() = Describe(*transaction->FindJob((*job)->uid()), transaction->now());
    return response;
  };
  return core_->UpdateOnce<v1::UpdateJobResponse>(KeyOf(caller, name_space, request), change);
}

void JobManager::TakeUpdate(Transaction* transaction, std::shared_ptr<const v1::Job> job) {
  const std::string uid = job->uid();
  const v1::JobSpec before = transaction->FindJob(uid)->record.job->spec();
  const std::string changes = DescribeUpdate(before, job->spec());
  const bool held = job->spec().suspend();
  if (held == before.suspend() && changes.empty()) return;
  supervisor::TakeUpdate(std::move(job), &transaction->EditJob(uid)->record);
  if (!changes.empty()) transaction->AddEvent(uid, {false, "Updated", changes, "", ""});
  if (held && !before.suspend()) {
    transaction->AddEvent(uid,
                          {false, "Suspended", "held by its user: gets nothing until it is resumed", "", ""});
  } else if (before.suspend() && !held) {
    transaction->AddEvent(uid, {false, "Resumed", "held no longer; waits for an allocation", "", ""});
  }
  reconciler_->Reconcile(transaction, uid);
}

absl::StatusOr<v1::CancelJobResponse> JobManager::CancelJob(const v1::CancelJobRequest& request,
                                                            const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const std::string name_space = NamespaceOr(request.namespace_());
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::CancelJobResponse> {
    const JobEntry* entry = transaction->FindJobByName(name_space, request.name());
    if (entry == nullptr) return WhyNone(name_space, request.name());
    const std::string uid = entry->record.uid();
    if (jobs::IsTerminal(entry->record.state.phase)) return HasFinished(*entry);
    if (!entry->record.state.cancel_requested) {
      transaction->EditJob(uid)->record.state.cancel_requested = true;
      transaction->AddEvent(uid,
                            {false, "CancelRequested", "its user asks the job to stop for good", "", ""});
      reconciler_->Reconcile(transaction, uid);
    }
    v1::CancelJobResponse response;
    *response.mutable_job() = Describe(*transaction->FindJob(uid), transaction->now());
    return response;
  };
  return core_->UpdateOnce<v1::CancelJobResponse>(KeyOf(caller, name_space, request), change);
}

absl::StatusOr<v1::DeleteJobResponse> JobManager::DeleteJob(const v1::DeleteJobRequest& request,
                                                            const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const std::string name_space = NamespaceOr(request.namespace_());
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::DeleteJobResponse> {
    const JobEntry* entry = transaction->FindJobByName(name_space, request.name());
    if (entry == nullptr) return WhyNone(name_space, request.name());
    if (!jobs::IsTerminal(entry->record.state.phase)) {
      return absl::FailedPreconditionError(absl::StrCat("job \"", request.name(), "\" has not finished (",
                                                        jobs::PhaseName(entry->record.state.phase),
                                                        "); cancel it first"));
    }
    deletions_->Delete(transaction, *entry->record.job);
    transaction->DeleteJob(entry->record.uid());
    return v1::DeleteJobResponse();
  };
  return core_->UpdateOnce<v1::DeleteJobResponse>(KeyOf(caller, name_space, request), change);
}

absl::StatusOr<v1::ListEventsResponse> JobManager::ListEvents(const v1::ListEventsRequest& request) const {
  const absl::StatusOr<int> page_size = ParsePageSize(request.page_size());
  if (!page_size.ok()) return page_size.status();
  const absl::StatusOr<int64_t> token = ParsePageToken(request.page_token());
  if (!token.ok()) return token.status();
  const std::string name_space = NamespaceOr(request.namespace_());
  if (!request.name().empty() && core_->index().FindJob(name_space, request.name()) == nullptr) {
    return WhyNone(name_space, request.name());
  }
  v1::ListEventsResponse response;
  size_t bytes = 0;
  int64_t after = std::max(*token, request.after_id());
  while (true) {
    // One more than the page holds tells whether there is another page.
    const int most = std::min(*page_size - response.events_size() + 1, kReadBatch);
    absl::StatusOr<std::vector<v1::Event>> events =
        core_->store()->ListEvents({name_space, request.name(), after, most, kMaxPageBytes - bytes});
    if (!events.ok()) return events.status();
    for (v1::Event& event : *events) {
      if (response.events_size() == *page_size) {
        response.set_next_page_token(absl::StrCat(after));
        return response;
      }
      after = event.id();
      bytes += event.ByteSizeLong();
      *response.add_events() = std::move(event);
    }
    if (bytes >= kMaxPageBytes) {
      response.set_next_page_token(absl::StrCat(after));
      return response;
    }
    if (static_cast<int>(events->size()) < most) return response;
  }
}

}  // namespace adaptdl::supervisor
