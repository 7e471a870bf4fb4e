#include "services/allocator/demand_board.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/random_id.h"
#include "libs/jobspec/placement.h"
#include "libs/messages/proto_time.h"
#include "services/allocator/node_resources.h"

namespace adaptdl::allocator {
namespace {

constexpr int kMostKinds = 64;

void SplitKey(const std::string& key, v1::JobDemand* job) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(key, absl::MaxSplits('/', 1));
  job->set_namespace_(std::string(parts.first));
  job->set_name(std::string(parts.second));
}

v1::JobDemand ToProto(const scheduling::JobDemand& demand, const scheduling::JobInfo& info) {
  v1::JobDemand job;
  SplitKey(demand.key, &job);
  job.set_weight(demand.weight);
  job.set_priority(demand.priority);
  job.set_pinned(demand.pinned);
  job.set_max_replicas(info.max_replicas);
  if (demand.remaining_seconds.has_value()) job.set_remaining_seconds(*demand.remaining_seconds);
  if (demand.deadline.has_value()) *job.mutable_deadline() = messages::ToProto(*demand.deadline);
  for (const std::string& node : demand.nodes) job.add_node_ids(node);
  for (const scheduling::KindDemand& kind : demand.kinds) {
    v1::KindSpeedups* speedups = job.add_kinds();
    speedups->set_kind(kind.kind);
    speedups->set_replicas_per_node(kind.per_node);
    for (const scheduling::DemandSize& size : kind.sizes) {
      speedups->add_replicas(size.replicas);
      speedups->add_speedups(size.speedup);
    }
  }
  return job;
}

v1::ListJobDemandsResponse AnswerFor(const DemandBasis& basis, const v1::ListJobDemandsRequest& request,
                                     const std::vector<scheduling::NodeKind>& kinds) {
  v1::ListJobDemandsResponse response;
  response.set_snapshot_version(basis.snapshot_version);
  *response.mutable_decision_time() = messages::ToProto(basis.decision_time);
  for (const std::string& node : basis.decision.capacity.idle_nodes) response.add_idle_node_ids(node);
  scheduling::DemandOptions options;
  options.admits = [&](int job, int kind) {
    return jobspec::Fits(basis.placements[job], request.kinds(kind));
  };
  const std::vector<scheduling::JobDemand> demands =
      scheduling::MakeJobDemands(basis.view, basis.decision, kinds, options);
  for (size_t j = 0; j < demands.size(); ++j) *response.add_jobs() = ToProto(demands[j], basis.view.jobs[j]);
  return response;
}

}  // namespace

absl::StatusOr<std::vector<scheduling::NodeKind>> ToKinds(
    const google::protobuf::RepeatedPtrField<v1::Node>& nodes) {
  if (nodes.size() > kMostKinds) {
    return absl::InvalidArgumentError(
        absl::StrCat("kinds: there are ", nodes.size(), "; give at most ", kMostKinds));
  }
  std::vector<scheduling::NodeKind> kinds;
  for (const v1::Node& node : nodes) {
    scheduling::NodeKind kind;
    const absl::Status status = ToResources(node.capacity(), &kind.capacity);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("kinds[", kinds.size(), "].capacity: ", status.message()));
    }
    kind.gpu_type = node.gpu_type();
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

DemandBoard::DemandBoard()
    : basis_(absl::UnavailableError("the allocator has not seen the cluster yet; try again")) {}

void DemandBoard::Set(DemandBasis basis) {
  auto shared = std::make_shared<const DemandBasis>(std::move(basis));
  MutexLock lock(&mutex_);
  basis_ = std::move(shared);
  answer_ = nullptr;
}

void DemandBoard::Refuse(const absl::Status& why) {
  MutexLock lock(&mutex_);
  basis_ = why;
  answer_ = nullptr;
}

std::vector<scheduling::NodeKind> DemandBoard::Kinds() const {
  MutexLock lock(&mutex_);
  return kinds_;
}

absl::StatusOr<v1::ListJobDemandsResponse> DemandBoard::List(const v1::ListJobDemandsRequest& request,
                                                             size_t bytes) {
  const auto kinds = ToKinds(request.kinds());
  if (!kinds.ok()) return kinds.status();
  std::string key;
  for (const v1::Node& kind : request.kinds())
    absl::StrAppend(&key, kind.ByteSizeLong(), ":", kind.SerializeAsString());
  std::shared_ptr<const DemandBasis> basis;
  std::shared_ptr<const Answer> answer;
  {
    MutexLock lock(&mutex_);
    if (!basis_.ok()) return basis_.status();
    basis = *basis_;
    answer = answer_;
    if (request.page_token().empty()) kinds_ = *kinds;
  }
  // Outside the lock: it takes its time for many jobs.
  if (request.page_token().empty() && (answer == nullptr || answer->kinds != key)) {
    answer = std::make_shared<const Answer>(Answer{key, RandomHex(8), AnswerFor(*basis, request, *kinds)});
    MutexLock lock(&mutex_);
    if (basis_.ok() && *basis_ == basis) answer_ = answer;
  }
  int first = 0;
  if (!request.page_token().empty()) {
    const std::vector<std::string> parts = absl::StrSplit(request.page_token(), '.');
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &first) || first < 0) {
      return absl::InvalidArgumentError(
          "page_token: is none of ours; give next_page_token of the page before");
    }
    if (answer == nullptr || answer->kinds != key || parts[0] != answer->id) {
      return absl::AbortedError(
          "page_token: the allocator has decided again meanwhile; begin with the first page");
    }
  }
  v1::ListJobDemandsResponse page;
  page.set_snapshot_version(answer->whole.snapshot_version());
  *page.mutable_decision_time() = answer->whole.decision_time();
  if (first == 0) *page.mutable_idle_node_ids() = answer->whole.idle_node_ids();
  size_t size = 0;
  for (; first < answer->whole.jobs_size() && size <= bytes; ++first) {
    *page.add_jobs() = answer->whole.jobs(first);
    size += answer->whole.jobs(first).ByteSizeLong();
  }
  if (first < answer->whole.jobs_size()) page.set_next_page_token(absl::StrCat(answer->id, ".", first));
  return page;
}

}  // namespace adaptdl::allocator
