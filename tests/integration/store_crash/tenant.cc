#include "tests/integration/store_crash/tenant.h"

#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/random_id.h"
#include "tests/integration/store_crash/call.h"

namespace adaptdl::integration {
namespace {

constexpr int kMaxJobs = 20;

}  // namespace

void Tenant::Connect(const std::shared_ptr<grpc::Channel>& channel) {
  jobs_ = v1::JobService::NewStub(channel);
  quotas_ = v1::QuotaService::NewStub(channel);
}

Tenant::Operation Tenant::Draw() {
  Operation operation;
  operation.request_id = RandomHex(16);
  operation.value = static_cast<int32_t>(1 + random_() % 100'000);
  operation.kind = static_cast<Kind>(random_() % 5);
  if (operation.kind == Kind::kSubmit || book_.jobs.empty()) {
    // Now and then a name that is taken.
    const bool taken = !book_.jobs.empty() && random_() % 8 == 0;
    operation.job = taken ? book_.jobs.begin()->first : absl::StrCat("job-", next_name_++);
    if (operation.kind != Kind::kSetQuota && operation.kind != Kind::kRemoveQuota) {
      operation.kind = Kind::kSubmit;
    }
  } else {
    auto job = book_.jobs.begin();
    std::advance(job, random_() % book_.jobs.size());
    operation.job = job->first;
  }
  if (operation.kind == Kind::kSubmit && book_.jobs.size() >= kMaxJobs) {
    operation.job = book_.jobs.begin()->first;
    operation.kind = book_.jobs.begin()->second.cancelled ? Kind::kDelete : Kind::kCancel;
  }
  return operation;
}

bool Tenant::IsValid(const Operation& operation) const {
  const auto job = book_.jobs.find(operation.job);
  switch (operation.kind) {
    case Kind::kSubmit:
      return job == book_.jobs.end();
    case Kind::kCancel:
      return job != book_.jobs.end() && !job->second.cancelled;
    case Kind::kDelete:
      return job != book_.jobs.end() && job->second.cancelled;
    case Kind::kSetQuota:
      return true;
    case Kind::kRemoveQuota:
      return book_.quota.has_value();
  }
  return false;
}

void Tenant::Apply(const Operation& operation, Book* book) {
  switch (operation.kind) {
    case Kind::kSubmit:
      book->jobs[operation.job] = {operation.value, false};
      return;
    case Kind::kCancel:
      book->jobs[operation.job].cancelled = true;
      return;
    case Kind::kDelete:
      book->jobs.erase(operation.job);
      return;
    case Kind::kSetQuota:
      book->quota = operation.value;
      return;
    case Kind::kRemoveQuota:
      book->quota.reset();
      return;
  }
}

absl::Status Tenant::Request(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kSubmit: {
      v1::SubmitJobRequest request;
      request.set_request_id(operation.request_id);
      request.mutable_job()->set_namespace_(namespace_);
      request.mutable_job()->set_name(operation.job);
      v1::ReplicaTemplate* replica = request.mutable_job()->mutable_spec()->mutable_template_();
      replica->add_command("train");
      replica->add_args(absl::StrCat(operation.value));
      v1::SubmitJobResponse response;
      return Call(jobs_.get(), &v1::JobService::Stub::SubmitJob, request, &response);
    }
    case Kind::kCancel: {
      v1::CancelJobRequest request;
      request.set_request_id(operation.request_id);
      request.set_namespace_(namespace_);
      request.set_name(operation.job);
      v1::CancelJobResponse response;
      return Call(jobs_.get(), &v1::JobService::Stub::CancelJob, request, &response);
    }
    case Kind::kDelete: {
      v1::DeleteJobRequest request;
      request.set_request_id(operation.request_id);
      request.set_namespace_(namespace_);
      request.set_name(operation.job);
      v1::DeleteJobResponse response;
      return Call(jobs_.get(), &v1::JobService::Stub::DeleteJob, request, &response);
    }
    case Kind::kSetQuota: {
      v1::SetQuotaRequest request;
      request.set_request_id(operation.request_id);
      request.set_namespace_(namespace_);
      request.set_gpus(operation.value);
      v1::SetQuotaResponse response;
      return Call(quotas_.get(), &v1::QuotaService::Stub::SetQuota, request, &response);
    }
    case Kind::kRemoveQuota: {
      v1::RemoveQuotaRequest request;
      request.set_request_id(operation.request_id);
      request.set_namespace_(namespace_);
      v1::RemoveQuotaResponse response;
      return Call(quotas_.get(), &v1::QuotaService::Stub::RemoveQuota, request, &response);
    }
  }
  return absl::InternalError("no such operation");
}

absl::Status Tenant::Operate() {
  if (!pending_) pending_ = Draw();
  const absl::Status status = Request(*pending_);
  if (IsUnanswered(status)) return absl::UnavailableError(status.message());
  const bool valid = IsValid(*pending_);
  if (status.ok() != valid) {
    return absl::FailedPreconditionError(
        absl::StrCat(namespace_, ": operation ", static_cast<int>(pending_->kind), " on ", pending_->job,
                     valid ? " was refused: " : " was carried out: ", status.ToString()));
  }
  if (valid) {
    Apply(*pending_, &book_);
    ++acknowledged_;
  }
  pending_.reset();
  return absl::OkStatus();
}

absl::StatusOr<Tenant::Book> Tenant::Read() {
  Book book;
  v1::ListJobsRequest request;
  request.set_namespace_(namespace_);
  request.set_page_size(1000);
  v1::ListJobsResponse response;
  absl::Status status = Call(jobs_.get(), &v1::JobService::Stub::ListJobs, request, &response);
  if (!status.ok()) return status;
  for (const v1::Job& job : response.jobs()) {
    Entry& entry = book.jobs[job.name()];
    entry.cancelled = job.status().phase() == v1::JOB_PHASE_CANCELLED;
    if (!absl::SimpleAtoi(job.spec().template_().args(0), &entry.value)) {
      return absl::FailedPreconditionError(absl::StrCat(job.name(), ": ", job.ShortDebugString()));
    }
  }
  v1::ListQuotasResponse quotas;
  status = Call(quotas_.get(), &v1::QuotaService::Stub::ListQuotas, v1::ListQuotasRequest(), &quotas);
  if (!status.ok()) return status;
  for (const v1::NamespaceQuota& quota : quotas.quotas()) {
    if (quota.namespace_() == namespace_) book.quota = quota.gpus();
  }
  return book;
}

std::string Tenant::ToString(const Book& book) {
  std::string text = book.quota ? absl::StrCat("quota ", *book.quota) : "no quota";
  for (const auto& [name, entry] : book.jobs) {
    absl::StrAppend(&text, ", ", name, "=", entry.value, entry.cancelled ? " cancelled" : "");
  }
  return text;
}

// Each job was submitted once, and cancelled once if it was.
absl::Status Tenant::CheckEvents(const Book& book) {
  std::map<std::string, std::map<std::string, int>> counts;
  v1::ListEventsRequest request;
  request.set_namespace_(namespace_);
  request.set_page_size(1000);
  do {
    v1::ListEventsResponse response;
    const absl::Status status = Call(jobs_.get(), &v1::JobService::Stub::ListEvents, request, &response);
    if (!status.ok()) return status;
    for (const v1::Event& event : response.events()) ++counts[event.job()][event.reason()];
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  for (const auto& [name, entry] : book.jobs) {
    if (counts[name]["Submitted"] == 1 && counts[name]["Cancelled"] == (entry.cancelled ? 1 : 0)) continue;
    return absl::FailedPreconditionError(absl::StrCat(namespace_, ": events of ", name, ": submitted ",
                                                      counts[name]["Submitted"], " times, cancelled ",
                                                      counts[name]["Cancelled"], " times"));
  }
  return absl::OkStatus();
}

absl::Status Tenant::Check() {
  const absl::StatusOr<Book> found = Read();
  if (!found.ok()) return found.status();
  Book with_pending = book_;
  if (pending_ && IsValid(*pending_)) Apply(*pending_, &with_pending);
  if (*found != book_ && *found != with_pending) {
    return absl::FailedPreconditionError(absl::StrCat(namespace_, ": expected {", ToString(book_), "} or {",
                                                      ToString(with_pending), "}, found {", ToString(*found),
                                                      "}"));
  }
  return CheckEvents(*found);
}

}  // namespace adaptdl::integration
