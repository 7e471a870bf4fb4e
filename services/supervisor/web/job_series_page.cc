#include "services/supervisor/web/job_series_page.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/supervisor/web/job_series.h"

namespace adaptdl::supervisor {
namespace {

constexpr char kMethod[] = "/adaptdl.v1.JobService/ListJobs";
// Jobs that the index's lock is held for at a time.
constexpr size_t kBatch = 256;

httpd::HttpResponse Refusal(int status, absl::string_view text) {
  httpd::HttpResponse response{status, "text/plain; charset=utf-8", absl::StrCat(text, "\n")};
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

httpd::HttpResponse Refusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return Refusal(401, status.message());
    case absl::StatusCode::kPermissionDenied:
      return Refusal(403, status.message());
    case absl::StatusCode::kResourceExhausted:
      return Refusal(429, status.message());
    default:
      return Refusal(503, status.message());
  }
}

security::Credentials CredentialsOf(const httpd::HttpRequest& request) {
  constexpr absl::string_view kBearer = "bearer ";
  security::Credentials credentials;
  const auto found = request.headers.find("authorization");
  if (found != request.headers.end() && absl::StartsWithIgnoreCase(found->second, kBearer)) {
    credentials.bearer = found->second.substr(kBearer.size());
  }
  return credentials;
}

// What the caller may see, of what it asks for.
absl::StatusOr<std::vector<std::string>> NamespacesFor(const security::Guard& guard,
                                                       const security::Credentials& credentials,
                                                       const std::string& asked) {
  if (guard.open()) return std::vector<std::string>{asked.empty() ? "*" : asked};
  if (const absl::Status status = guard.Authorize(kMethod, credentials); !status.ok()) return status;
  const absl::Status status = guard.CheckNamespace(credentials, kMethod, asked.empty() ? "*" : asked);
  if (status.ok()) return std::vector<std::string>{asked.empty() ? "*" : asked};
  if (!asked.empty()) return status;
  const absl::StatusOr<security::Caller> caller = guard.Identify(credentials);
  if (!caller.ok()) return caller.status();
  if (caller->namespaces.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(status.message(), "; ask for one namespace, by ?namespace=NAME"));
  }
  return caller->namespaces;
}

}  // namespace

void JobSeriesPage::Handle(const httpd::HttpRequest& request,
                           const std::shared_ptr<httpd::HttpExchange>& exchange) const {
  if (request.method != "GET") return exchange->Answer(Refusal(405, "GET this page"));
  const security::Credentials credentials = CredentialsOf(request);
  std::string caller = request.peer;
  if (!guard_->open()) {
    const absl::StatusOr<security::Caller> known = guard_->Identify(credentials);
    // A cluster that has tokens of its own may know whose it is: it is asked on the lane.
    if (!known.ok() && !guard_->may_wait()) return exchange->Answer(Refusal(known.status()));
    if (known.ok()) caller = known->name;
  }
  if (const absl::Status status = admission_->Call(caller); !status.ok())
    return exchange->Answer(Refusal(status));
  const auto asked = request.query.find("namespace");
  readers_->Post(
      caller, [this, credentials, exchange, name_space = asked == request.query.end() ? "" : asked->second] {
        exchange->Answer(Answer(credentials, name_space));
      });
}

httpd::HttpResponse JobSeriesPage::Answer(const security::Credentials& credentials,
                                          const std::string& name_space) const {
  const absl::StatusOr<std::vector<std::string>> seen = NamespacesFor(*guard_, credentials, name_space);
  if (!seen.ok()) return Refusal(seen.status());
  JobSeries series(most_);
  const Moment now = clock_->Both();
  for (const std::string& one : *seen) {
    for (int64_t after = 0;;) {
      const std::vector<std::shared_ptr<const JobEntry>> batch = index_->JobsAfter(one, after, kBatch);
      for (const std::shared_ptr<const JobEntry>& entry : batch) {
        after = entry->record.sequence;
        series.Add(*entry, costs_->CostOf(entry->record.uid()), now);
      }
      if (batch.size() < kBatch) break;
    }
  }
  return {200, "text/plain; version=0.0.4; charset=utf-8", series.Text(), {{"Cache-Control", "no-store"}}};
}

}  // namespace adaptdl::supervisor
