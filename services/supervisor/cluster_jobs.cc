// What users do with jobs.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/jobspec/job_spec.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/convert.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;

// Entries of a list that are looked up at once: the index and the store are held for no longer.
constexpr int kReadBatch = 128;

bool Matches(const v1::ListJobsRequest& request, const v1::Job& job, const v1::JobStatus& status) {
  if (!request.phases().empty() &&
      std::find(request.phases().begin(), request.phases().end(), status.phase()) == request.phases().end()) {
    return false;
  }
  return std::all_of(request.labels().begin(), request.labels().end(), [&](const auto& label) {
    const auto it = job.labels().find(label.first);
    return it != job.labels().end() && it->second == label.second;
  });
}

}  // namespace

absl::Status NoSuchJob(const std::string& name_space, const std::string& name) {
  return absl::NotFoundError(absl::StrCat("job \"", name, "\" does not exist in namespace \"", name_space,
                                          "\"; list the jobs there are"));
}

absl::Status ClusterState::NoReadableJob(const std::string& name_space, const std::string& name) const {
  if (unreadable_jobs_.count({name_space, name}) == 0) return NoSuchJob(name_space, name);
  return absl::DataLossError(absl::StrCat("job \"", name, "\" of namespace \"", name_space,
                                          "\": its record can't be read; ask an administrator to look at it "
                                          "(adaptdl admin check)"));
}

std::string NamespaceOr(const std::string& name_space) { return name_space.empty() ? "default" : name_space; }

absl::StatusOr<int64_t> ParsePageToken(const std::string& token) {
  if (token.empty()) return 0;
  int64_t value = 0;
  if (absl::SimpleAtoi(token, &value) && value > 0) return value;
  return absl::InvalidArgumentError("page_token: is none of ours; give next_page_token of the page before");
}

absl::StatusOr<int> ParsePageSize(int page_size) {
  if (page_size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: ", page_size, ": give a number from 0 to 1000"));
  }
  return page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
}

absl::StatusOr<v1::SubmitJobResponse> ClusterState::SubmitJob(v1::SubmitJobRequest request,
                                                              const std::string& caller) {
  v1::Job* job = request.mutable_job();
  job->set_namespace_(NamespaceOr(job->namespace_()));
  const RequestKey key = KeyOf(caller, job->namespace_(), request);
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(jobspec::CheckNewJob(*job, request.generate_name()));
  if (!status.ok()) return status;
  jobspec::FillDefaults(job->mutable_spec());
  return Once<v1::SubmitJobResponse>(key, [&](Transaction* transaction) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return AddJob(transaction, request);
  });
}

absl::StatusOr<std::string> ClusterState::ChooseName(const Transaction& transaction,
                                                     const v1::SubmitJobRequest& request) const {
  const std::string& name_space = request.job().namespace_();
  if (!request.job().name().empty()) {
    const std::string& name = request.job().name();
    const bool unreadable = unreadable_jobs_.count({name_space, name}) > 0;
    if (!unreadable && transaction.FindJobByName(name_space, name) == nullptr) return name;
    return absl::AlreadyExistsError(
        absl::StrCat("job.name: \"", name, "\" is taken in namespace \"", name_space,
                     "\"; choose another name, or delete that job when it has finished"));
  }
  while (true) {
    const std::string name = absl::StrCat(request.generate_name(), parts_.random_hex(3));
    const bool unreadable = unreadable_jobs_.count({name_space, name}) > 0;
    if (!unreadable && transaction.FindJobByName(name_space, name) == nullptr) return name;
  }
}

absl::StatusOr<v1::SubmitJobResponse> ClusterState::AddJob(Transaction* transaction,
                                                           const v1::SubmitJobRequest& request) {
  const absl::StatusOr<std::string> name = ChooseName(*transaction, request);
  if (!name.ok()) return name.status();
  absl::Status status = CheckJobQuota(request.job().namespace_());
  if (status.ok()) status = CheckSubmissionQuota(request.job().namespace_());
  if (!status.ok()) return status;
  submissions_.Note(request.job().namespace_(), transaction->now());
  auto job = std::make_shared<v1::Job>(request.job());
  job->clear_status();
  job->set_name(*name);
  job->set_uid(parts_.random_hex(16));
  JobRecord record;
  record.job = job;
  record.status.set_phase(v1::JOB_PHASE_PENDING);
  record.status.set_reason("Queued");
  record.status.set_message("waits for an allocation");
  *record.status.mutable_submit_time() = ToProto(transaction->wall());
  const JobEntry* entry = transaction->AddJob(std::move(record));
  transaction->AddEvent(job->uid(), {false, "Submitted", "submitted; waits for an allocation", "", ""});
  v1::SubmitJobResponse response;
  *response.mutable_job() = DescribeJob(*entry, transaction->now());
  return response;
}

absl::StatusOr<v1::Job> ClusterState::GetJob(const std::string& name_space, const std::string& name) const {
  const std::shared_ptr<const JobEntry> entry = index_.FindJob(NamespaceOr(name_space), name);
  if (entry == nullptr) return NoReadableJob(NamespaceOr(name_space), name);
  return DescribeJob(*entry, Now());
}

absl::StatusOr<v1::Job> ClusterState::GetJobByUid(const std::string& uid) const {
  const std::shared_ptr<const JobEntry> entry = index_.FindJob(uid);
  if (entry == nullptr) return absl::NotFoundError("the job was deleted");
  return DescribeJob(*entry, Now());
}

absl::StatusOr<v1::ListJobsResponse> ClusterState::ListJobs(const v1::ListJobsRequest& request) const {
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
        index_.JobsAfter(name_space, after, kReadBatch);
    for (const std::shared_ptr<const JobEntry>& entry : batch) {
      after = entry->record.sequence;
      if (!Matches(request, *entry->record.job, entry->record.status)) continue;
      if (response.jobs_size() == *page_size || bytes > kMaxPageBytes) {
        response.set_next_page_token(absl::StrCat(last));
        return response;
      }
      *response.add_jobs() = DescribeJob(*entry, Now());
      bytes += response.jobs(response.jobs_size() - 1).ByteSizeLong();
      last = after;
    }
    if (batch.size() < kReadBatch) return response;
  }
}

std::vector<std::string> ClusterState::JobUids(const std::string& name_space) const {
  std::vector<std::string> uids;
  for (int64_t after = 0;;) {
    const std::vector<std::shared_ptr<const JobEntry>> batch =
        index_.JobsAfter(NamespaceOr(name_space), after, kReadBatch);
    for (const std::shared_ptr<const JobEntry>& entry : batch) uids.push_back(entry->record.uid());
    if (batch.size() < kReadBatch) return uids;
    after = batch.back()->record.sequence;
  }
}

absl::StatusOr<v1::CancelJobResponse> ClusterState::CancelJob(const v1::CancelJobRequest& request,
                                                              const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const std::string name_space = NamespaceOr(request.namespace_());
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::CancelJobResponse> {
    const JobEntry* entry = transaction->FindJobByName(name_space, request.name());
    if (entry == nullptr) return NoReadableJob(name_space, request.name());
    const std::string uid = entry->record.uid();
    if (IsTerminal(entry->record.status.phase())) {
      return absl::FailedPreconditionError(absl::StrCat("job \"", request.name(), "\" has finished already (",
                                                        v1::JobPhase_Name(entry->record.status.phase()),
                                                        ")"));
    }
    if (!entry->record.status.cancel_requested()) {
      transaction->EditJob(uid)->record.status.set_cancel_requested(true);
      transaction->AddEvent(uid,
                            {false, "CancelRequested", "its user asks the job to stop for good", "", ""});
      Settle(transaction, uid);
    }
    v1::CancelJobResponse response;
    *response.mutable_job() = DescribeJob(*transaction->FindJob(uid), transaction->now());
    return response;
  };
  return Once<v1::CancelJobResponse>(KeyOf(caller, name_space, request), change);
}

absl::StatusOr<v1::DeleteJobResponse> ClusterState::DeleteJob(const v1::DeleteJobRequest& request,
                                                              const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  const std::string name_space = NamespaceOr(request.namespace_());
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::DeleteJobResponse> {
    const JobEntry* entry = transaction->FindJobByName(name_space, request.name());
    if (entry == nullptr) return NoReadableJob(name_space, request.name());
    if (!IsTerminal(entry->record.status.phase())) {
      return absl::FailedPreconditionError(absl::StrCat("job \"", request.name(), "\" has not finished (",
                                                        v1::JobPhase_Name(entry->record.status.phase()),
                                                        "); cancel it first"));
    }
    DeleteFiles(transaction, *entry->record.job);
    transaction->DeleteJob(entry->record.uid());
    return v1::DeleteJobResponse();
  };
  return Once<v1::DeleteJobResponse>(KeyOf(caller, name_space, request), change);
}

absl::StatusOr<v1::ListEventsResponse> ClusterState::ListEvents(const v1::ListEventsRequest& request) const {
  const absl::StatusOr<int> page_size = ParsePageSize(request.page_size());
  if (!page_size.ok()) return page_size.status();
  const absl::StatusOr<int64_t> token = ParsePageToken(request.page_token());
  if (!token.ok()) return token.status();
  const std::string name_space = NamespaceOr(request.namespace_());
  if (!request.name().empty() && index_.FindJob(name_space, request.name()) == nullptr) {
    return NoReadableJob(name_space, request.name());
  }
  v1::ListEventsResponse response;
  size_t bytes = 0;
  int64_t after = std::max(*token, request.after_id());
  while (true) {
    // One more than the page holds tells whether there is another page.
    const int most = std::min(*page_size - response.events_size() + 1, kReadBatch);
    absl::StatusOr<std::vector<v1::Event>> events =
        parts_.store->ListEvents({name_space, request.name(), after, most, kMaxPageBytes - bytes});
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

absl::StatusOr<std::vector<LogLocation>> ClusterState::FindLogs(const std::string& uid) const {
  absl::StatusOr<std::vector<ReplicaRecord>> replicas = parts_.store->ListReplicas(uid);
  if (!replicas.ok()) return replicas.status();
  std::vector<LogLocation> locations;
  for (ReplicaRecord& record : *replicas) {
    LogLocation& location = locations.emplace_back();
    location.replica = std::move(record.replica);
    location.first_group = record.launch_group;
    const std::shared_ptr<const NodeEntry> node = index_.FindNode(location.replica.node_id());
    if (node != nullptr && node->phase() != v1::NODE_PHASE_LOST) {
      location.worker_address = node->record.node.worker_address();
    }
  }
  return locations;
}

std::vector<std::string> ClusterState::FindFileServers(const std::string& uid) const {
  std::set<std::string> preferred;
  const std::shared_ptr<const JobEntry> job = index_.FindJob(uid);
  if (job != nullptr) {
    for (const auto& replica : job->replicas) preferred.insert(replica->replica.node_id());
  }
  std::vector<std::string> likely;
  std::vector<std::string> others;
  std::string after;
  while (true) {
    const std::vector<ReadIndex::Node> batch = index_.NodesAfter(after, kReadBatch);
    for (const ReadIndex::Node& node : batch) {
      after = node.entry->id();
      if (node.entry->phase() == v1::NODE_PHASE_LOST) continue;
      (preferred.count(after) > 0 ? likely : others).push_back(node.entry->record.node.worker_address());
    }
    if (batch.size() < kReadBatch) break;
  }
  likely.insert(likely.end(), others.begin(), others.end());
  return likely;
}

}  // namespace adaptdl::supervisor
