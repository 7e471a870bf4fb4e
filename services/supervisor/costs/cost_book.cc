#include "services/supervisor/costs/cost_book.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/costs/holders.h"
#include "services/supervisor/state/job_entry.h"
#include "services/supervisor/state/node_use.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::Duration kLookPeriod = absl::Seconds(1);
constexpr absl::Duration kStorePeriod = absl::Seconds(30);
constexpr absl::Duration kExpiryPeriod = absl::Minutes(1);
// Of one answer: some three mebibytes.
constexpr size_t kMaxLines = 20'000;

double ToUnits(int64_t nanos) { return static_cast<double>(nanos) / static_cast<double>(kNanosOfUnit); }

// The first hour that is asked for, and the first that is no more.
struct HourSpan {
  int64_t begin = 1;
  int64_t end = std::numeric_limits<int64_t>::max();
};

absl::StatusOr<HourSpan> HoursOf(const v1::GetCostsRequest& request) {
  HourSpan span;
  if (request.has_start_time()) span.begin = HourOf(messages::ToTime(request.start_time()));
  if (request.has_end_time()) {
    const absl::Time end = messages::ToTime(request.end_time());
    span.end = HourOf(end);
    if (BeginOfHour(span.end) < end) ++span.end;
  }
  if (span.begin < span.end) return span;
  return absl::InvalidArgumentError("end_time: is not after start_time; give a later one, or none");
}

// Replicas of one job that may be on the node.
void AddResidents(const JobEntry& job, const std::map<std::string, std::shared_ptr<const NodeEntry>>& nodes,
                  std::map<std::string, std::vector<Residents>>* residents) {
  const JobShare share = ShareOf(job);
  for (const auto& [node, count] : share.live) {
    if (!nodes.contains(node)) continue;
    const v1::Job& description = *job.record.job;
    (*residents)[node].push_back({{description.namespace_(), description.name(), description.uid()},
                                  description.spec().template_().resources(),
                                  count});
  }
}

}  // namespace

void CostBook::Fill(const CostContents& contents) {
  MutexLock lock(&mutex_);
  accountant_.Restore(contents, core_->Now());
}

void CostBook::SetPool(const std::string& pool, const std::vector<CostNode>& nodes) {
  MutexLock lock(&mutex_);
  accountant_.SetPool(pool, nodes, core_->Now());
}

void CostBook::SetCurrency(const std::string& currency) {
  MutexLock lock(&mutex_);
  accountant_.SetCurrency(currency);
}

std::optional<double> CostBook::CostOf(const std::string& job_uid) const {
  MutexLock lock(&mutex_);
  return accountant_.CostOf(job_uid);
}

absl::StatusOr<v1::GetCostsResponse> CostBook::GetCosts(const v1::GetCostsRequest& request) const {
  const absl::StatusOr<HourSpan> span = HoursOf(request);
  if (!span.ok()) return span.status();
  v1::GetCostsResponse response;
  std::map<CostAccountant::LineKey, CostSum> lines;
  {
    MutexLock lock(&mutex_);
    lines = accountant_.Lines(request.namespace_().empty() ? "default" : request.namespace_(), span->begin,
                              span->end);
    response.set_currency(accountant_.currency());
    const int64_t first = accountant_.FirstHour().value_or(HourOf(core_->Now().wall));
    *response.mutable_start_time() = messages::ToProto(BeginOfHour(first));
  }
  if (lines.size() > kMaxLines) {
    return absl::ResourceExhaustedError(absl::StrCat("start_time: the answer would have ", lines.size(),
                                                     " lines, and has at most ", kMaxLines,
                                                     "; ask for less time, or for one namespace"));
  }
  for (const auto& [key, sum] : lines) {
    v1::CostLine* line = response.add_lines();
    std::tie(*line->mutable_namespace_(), *line->mutable_job(), *line->mutable_job_uid(),
             *line->mutable_pool()) = key;
    line->set_node_hours(static_cast<double>(sum.node_micros) / static_cast<double>(kMicrosOfHour));
    line->set_cost(ToUnits(sum.cost_nanos));
  }
  return response;
}

std::map<std::string, NodeView> CostBook::LookAt(const std::set<std::string>& ids) const {
  std::map<std::string, std::shared_ptr<const NodeEntry>> nodes;
  std::vector<std::shared_ptr<const JobEntry>> jobs;
  // Entries do not change: they are looked at without the lock.
  core_->Read([&](const Tables& tables) {
    for (const std::string& id : ids) {
      const auto node = tables.nodes.find(id);
      if (node != tables.nodes.end()) nodes[id] = node->second;
    }
    if (nodes.empty()) return;
    jobs.reserve(tables.active.size());
    for (const auto& [sequence, uid] : tables.active) jobs.push_back(tables.jobs.at(uid));
  });
  std::map<std::string, std::vector<Residents>> residents;
  for (const auto& job : jobs) AddResidents(*job, nodes, &residents);
  std::map<std::string, NodeView> views;
  for (const auto& [id, node] : nodes) {
    NodeView& view = views[id];
    view.alive = node->phase() != v1::NODE_PHASE_LOST;
    const auto there = residents.find(id);
    if (there != residents.end()) view.holders = PartsOf(node->record.node.capacity(), there->second);
  }
  return views;
}

void CostBook::CountIncreases() {
  Metrics* metrics = core_->metrics();
  if (metrics == nullptr) return;
  MutexLock lock(&mutex_);
  for (const auto& [key, nanos] : accountant_.TakeIncreases())
    metrics->CountCost(key.first, key.second, ToUnits(nanos));
}

void CostBook::Expire(const Moment& now) {
  MutexLock lock(&mutex_);
  accountant_.Expire([this](const std::string& uid) { return core_->index().FindJob(uid) != nullptr; }, now);
}

void CostBook::Store(const Moment& now) {
  CostChanges changes;
  {
    MutexLock lock(&mutex_);
    changes = accountant_.TakeChanges(now);
  }
  if (changes.empty()) return;
  const absl::Status status = core_->Update([&](Transaction* transaction) {
    transaction->PutCosts(changes);
    return absl::OkStatus();
  });
  if (status.ok()) return;
  // The next time tries again.
  MutexLock lock(&mutex_);
  accountant_.PutBack(changes);
}

void CostBook::Step() {
  const Moment now = core_->Now();
  if (now < next_look_) return;
  next_look_ = now + kLookPeriod;
  std::set<std::string> ids;
  {
    MutexLock lock(&mutex_);
    ids = accountant_.NodeIds();
  }
  if (!ids.empty()) {
    const std::map<std::string, NodeView> views = LookAt(ids);
    MutexLock lock(&mutex_);
    accountant_.Advance(views, core_->Now());
  }
  CountIncreases();
  if (now >= next_expiry_) {
    next_expiry_ = now + kExpiryPeriod;
    Expire(now);
  }
  if (now < next_store_) return;
  next_store_ = now + kStorePeriod;
  Store(now);
}

}  // namespace adaptdl::supervisor
