#include "services/allocator/capacity_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/random_id.h"
#include "libs/rpc/status.h"

namespace adaptdl::allocator {
namespace {

// About how much one page holds: well below the largest message.
constexpr size_t kPageBytes = 1 << 20;

}  // namespace

CapacityBoard::CapacityBoard()
    : capacity_(absl::UnavailableError("the allocator has not seen the cluster yet; try again")) {}

void CapacityBoard::Set(v1::GetDesiredCapacityResponse capacity) {
  MutexLock lock(&mutex_);
  capacity_ = std::move(capacity);
  decision_ = RandomHex(8);
}

void CapacityBoard::Refuse(const absl::Status& why) {
  MutexLock lock(&mutex_);
  capacity_ = why;
}

absl::StatusOr<v1::GetDesiredCapacityResponse> CapacityBoard::Get() const {
  MutexLock lock(&mutex_);
  return capacity_;
}

absl::StatusOr<v1::GetDesiredCapacityResponse> CapacityBoard::GetPage(const std::string& token,
                                                                      size_t bytes) const {
  MutexLock lock(&mutex_);
  if (!capacity_.ok()) return capacity_.status();
  int nodes = 0;
  int points = 0;
  if (!token.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(token, '.');
    if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &nodes) || !absl::SimpleAtoi(parts[2], &points) ||
        nodes < 0 || points < 0) {
      return absl::InvalidArgumentError(
          "page_token: is none of ours; give next_page_token of the page before");
    }
    if (parts[0] != decision_) {
      return absl::AbortedError(
          "page_token: the allocator has decided again meanwhile; begin with the first page");
    }
  }
  v1::GetDesiredCapacityResponse page;
  page.set_desired_nodes(capacity_->desired_nodes());
  page.set_current_nodes(capacity_->current_nodes());
  page.set_reason(capacity_->reason());
  page.set_snapshot_version(capacity_->snapshot_version());
  if (capacity_->has_decision_time()) *page.mutable_decision_time() = capacity_->decision_time();
  page.set_start_nodes(capacity_->start_nodes());
  // All in the first page, as who adds the pages up has each once.
  if (token.empty()) *page.mutable_unplaced() = capacity_->unplaced();
  size_t size = 0;
  for (; nodes < capacity_->idle_node_ids_size() && size <= bytes; ++nodes) {
    page.add_idle_node_ids(capacity_->idle_node_ids(nodes));
    size += capacity_->idle_node_ids(nodes).size();
  }
  for (; points < capacity_->points_size() && size <= bytes; ++points) {
    *page.add_points() = capacity_->points(points);
    size += capacity_->points(points).ByteSizeLong();
  }
  if (nodes < capacity_->idle_node_ids_size() || points < capacity_->points_size()) {
    page.set_next_page_token(absl::StrCat(decision_, ".", nodes, ".", points));
  }
  return page;
}

grpc::ServerUnaryReactor* CapacityService::GetDesiredCapacity(grpc::CallbackServerContext* context,
                                                              const v1::GetDesiredCapacityRequest* request,
                                                              v1::GetDesiredCapacityResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<v1::GetDesiredCapacityResponse> capacity =
      request->pages() ? board_.GetPage(request->page_token(), kPageBytes) : board_.Get();
  if (capacity.ok()) *response = *std::move(capacity);
  reactor->Finish(rpc::ToGrpcStatus(capacity.status()));
  return reactor;
}

grpc::ServerUnaryReactor* CapacityService::ListJobDemands(grpc::CallbackServerContext* context,
                                                          const v1::ListJobDemandsRequest* request,
                                                          v1::ListJobDemandsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<v1::ListJobDemandsResponse> page = demands_.List(*request, kPageBytes);
  if (page.ok()) *response = *std::move(page);
  reactor->Finish(rpc::ToGrpcStatus(page.status()));
  return reactor;
}

}  // namespace adaptdl::allocator
