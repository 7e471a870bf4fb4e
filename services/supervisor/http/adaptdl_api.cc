#include "services/supervisor/http/adaptdl_api.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/service/log.h"
#include "nlohmann/json.hpp"
#include "services/supervisor/http/hints_json.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::Duration kDefaultWait = absl::Seconds(30);
// Whoever asks for more asks again.
constexpr absl::Duration kEarlyWait = absl::Seconds(1);
constexpr absl::Duration kLongestWait = absl::Minutes(5);

httpd::HttpResponse Text(int status, absl::string_view text) {
  return {status, "text/plain", absl::StrCat(text, "\n")};
}
httpd::HttpResponse AskAgain() { return {408, "application/json", "null"}; }
httpd::HttpResponse NotFound() { return Text(404, "there is nothing here"); }

httpd::HttpResponse ToResponse(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return {200, "", ""};
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return Text(400, status.message());
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAborted:
      return NotFound();
    default:
      return Text(503, status.message());
  }
}

// Of "?timeout="; nullopt: it is none.
std::optional<absl::Duration> WaitOf(const httpd::HttpRequest& request) {
  const auto it = request.query.find("timeout");
  if (it == request.query.end()) return kDefaultWait;
  double seconds = 0;
  if (!absl::SimpleAtod(it->second, &seconds) || !(seconds >= 0)) return std::nullopt;
  return std::min(absl::Seconds(seconds), kLongestWait);
}

}  // namespace

// Replicas of one group that wait for the others. Looks once per change of the job, however many wait.
class AdaptdlApi::Rendezvous final : public ChangeListener {
 public:
  Rendezvous(const Membership* membership, GroupCommit* durability, ReplicaContext replica)
      : membership_(membership), durability_(durability), replica_(std::move(replica)) {}

  void Add(std::shared_ptr<httpd::HttpExchange> exchange, absl::Time deadline) {
    MutexLock lock(&mutex_);
    waiting_.push_back({std::move(exchange), deadline});
  }

  // Answers all once the group is complete, or over.
  void Look() {
    const absl::StatusOr<std::vector<std::string>> hosts =
        membership_->FindHosts(replica_.job_uid, replica_.group);
    if (hosts.ok() && hosts->empty()) return;
    std::list<Waiting> waiting;
    {
      MutexLock lock(&mutex_);
      waiting.swap(waiting_);
    }
    const httpd::HttpResponse response =
        hosts.ok() ? httpd::HttpResponse{200, "application/json", nlohmann::json(*hosts).dump()} : NotFound();
    durability_->WhenDurable([response, waiting = std::move(waiting)] {
      for (const Waiting& one : waiting) one.exchange->Answer(response);
    });
  }

  // Answers those whose time is over. Whether anybody is left.
  bool Expire(absl::Time now) {
    MutexLock lock(&mutex_);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->deadline > now) {
        ++it;
        continue;
      }
      it->exchange->Answer(AskAgain());
      it = waiting_.erase(it);
    }
    return !waiting_.empty();
  }

  void OnChanges(const Changes& /*changes*/) override { Look(); }

 private:
  struct Waiting {
    std::shared_ptr<httpd::HttpExchange> exchange;
    absl::Time deadline;
  };

  const Membership* const membership_;
  GroupCommit* const durability_;
  const ReplicaContext replica_;  // One of them; the group is what counts.
  Mutex mutex_;
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

void AdaptdlApi::Handle(const httpd::HttpRequest& request,
                        const std::shared_ptr<httpd::HttpExchange>& exchange) {
  if (request.method == "GET" && request.path == "/healthz") {
    exchange->Answer(Text(200, "ok"));
    return;
  }
  std::vector<std::string> path = absl::StrSplit(absl::StripPrefix(request.path, "/"), '/');
  UrlIdentity identity;
  identity.peer = request.peer;
  if (path.size() >= 5 && absl::SimpleAtoi(path[1], &identity.rank)) {
    identity.secret = path[0];
    path.erase(path.begin(), path.begin() + 2);
  }
  if (path.size() < 3) return exchange->Answer(NotFound());
  identity.name_space = path[1];
  identity.job = path[2];
  if (path.size() == 4 && request.method == "GET" && path[0] == "discover") {
    Discover(request, identity, path[3], exchange);
  } else if (path.size() == 3 && request.method == "PUT" && path[0] == "hints") {
    TakeHints(request, identity, exchange);
  } else {
    exchange->Answer(NotFound());
  }
}

void AdaptdlApi::Discover(const httpd::HttpRequest& request, const UrlIdentity& identity,
                          absl::string_view restarts, const std::shared_ptr<httpd::HttpExchange>& exchange) {
  const absl::StatusOr<ReplicaContext> replica = membership_->AuthorizeUrl(identity);
  if (absl::IsUnavailable(replica.status())) return AnswerLater(exchange);
  int64_t group = 0;
  if (!replica.ok() || !absl::SimpleAtoi(restarts, &group)) {
    exchange->Answer(NotFound());
    return;
  }
  const std::optional<absl::Duration> wait = WaitOf(request);
  if (!wait.has_value()) {
    exchange->Answer(Text(400, "timeout is not valid; give a number of seconds"));
    return;
  }
  if (const absl::Status joined = membership_->JoinByUrl(*replica, group); !joined.ok()) {
    exchange->Answer(ToResponse(joined));
    return;
  }
  // First among those who wait, then a look: no change is missed.
  Enter(*replica, exchange, core_->Now() + *wait)->Look();
}

std::shared_ptr<AdaptdlApi::Rendezvous> AdaptdlApi::Enter(
    const ReplicaContext& replica, const std::shared_ptr<httpd::HttpExchange>& exchange,
    absl::Time deadline) {
  MutexLock lock(&mutex_);
  std::shared_ptr<Rendezvous>& rendezvous = waiting_[{replica.job_uid, replica.group}];
  if (rendezvous == nullptr) {
    rendezvous = std::make_shared<Rendezvous>(membership_, durability_, replica);
    hub_->SubscribeToJob(replica.job_uid, rendezvous);
  }
  rendezvous->Add(exchange, deadline);
  return rendezvous;
}

void AdaptdlApi::TakeHints(const httpd::HttpRequest& request, const UrlIdentity& identity,
                           const std::shared_ptr<httpd::HttpExchange>& exchange) {
  const absl::StatusOr<ReplicaContext> replica = membership_->AuthorizeUrl(identity);
  if (!replica.ok()) {
    exchange->Answer(ToResponse(replica.status()));
    return;
  }
  const absl::StatusOr<v1::Hints> hints = HintsFromJson(request.body);
  const absl::Status status = hints.ok() ? reports_->ReportHints(*replica, *hints) : hints.status();
  if (!hints.ok()) reports_->NoteRefused(*replica, "hints", hints.status());
  if (!status.ok()) {
    // The client tells its user no more than the number; the job has an event of the first.
    log::Debug("hints refused", {{"job", absl::StrCat(identity.name_space, "/", identity.job)},
                                 {"replica", replica->replica_id},
                                 {"reason", std::string(status.message())}});
  }
  exchange->Answer(ToResponse(status));
}

void AdaptdlApi::AnswerLater(const std::shared_ptr<httpd::HttpExchange>& exchange) {
  MutexLock lock(&mutex_);
  early_.emplace_back(exchange, core_->Now() + kEarlyWait);
}

void AdaptdlApi::Step() {
  const absl::Time now = core_->Now();
  MutexLock lock(&mutex_);
  std::erase_if(early_, [&](const auto& early) {
    if (early.second > now) return false;
    early.first->Answer(AskAgain());
    return true;
  });
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    it = it->second->Expire(now) ? std::next(it) : waiting_.erase(it);
  }
}

}  // namespace adaptdl::supervisor
