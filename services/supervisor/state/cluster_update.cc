#include "services/supervisor/state/cluster_update.h"

#include <limits>
#include <string>
#include <utility>

#include "services/supervisor/state/job_status.h"

namespace adaptdl::supervisor {
namespace {

// What decides on allocations, and what was said of the last decision: not the command, the environment, the
// labels and the history.
v1::Job ForScheduling(const JobEntry& entry, const std::optional<pastwork::PastWork>& past, absl::Time now) {
  v1::Job job;
  const v1::Job& spec = *entry.record.job;
  job.set_namespace_(spec.namespace_());
  job.set_name(spec.name());
  job.set_uid(spec.uid());
  v1::JobSpec* slim = job.mutable_spec();
  slim->set_min_replicas(spec.spec().min_replicas());
  slim->set_max_replicas(spec.spec().max_replicas());
  *slim->mutable_allowed_replicas() = spec.spec().allowed_replicas();
  slim->set_priority(spec.spec().priority());
  slim->set_preemptible(spec.spec().preemptible());
  slim->set_max_restarts(spec.spec().max_restarts());
  slim->set_rescale(spec.spec().rescale());
  slim->set_suspend(spec.spec().suspend());
  *slim->mutable_template_()->mutable_resources() = spec.spec().template_().resources();
  // By which what it asks for has other defaults.
  slim->mutable_template_()->set_api_access(spec.spec().template_().api_access());
  if (spec.spec().template_().has_placement()) {
    *slim->mutable_template_()->mutable_placement() = spec.spec().template_().placement();
  }
  FillStatus(entry.record, Audience::kAllocator, now, job.mutable_status());
  if (past.has_value()) {
    v1::PastWork* past_work = job.mutable_status()->mutable_past_work();
    past_work->set_jobs(past->jobs);
    past_work->set_mean_log(past->mean_log);
    past_work->set_squares_log(past->squares_log);
  }
  return job;
}

// `labels`: whether the labels, which may be long, are told, too.
v1::Node ForScheduling(const NodeEntry& entry, bool labels) {
  v1::Node node;
  const v1::Node& known = entry.record.node;
  node.set_node_id(known.node_id());
  *node.mutable_capacity() = known.capacity();
  node.set_gpu_type(known.gpu_type());
  node.set_preemptible(known.preemptible());
  if (labels) *node.mutable_labels() = known.labels();
  *node.mutable_taints() = known.taints();
  *node.mutable_status() = known.status();
  node.mutable_status()->clear_message();
  return node;
}

// Adds it, and says how large it is.
template <typename Repeated, typename Value>
size_t AddTo(Repeated* list, Value value) {
  const size_t size = value.ByteSizeLong();
  *list->Add() = std::move(value);
  return size;
}

}  // namespace

ClusterPages::ClusterPages(ClusterUpdate view, size_t bytes)
    : view_(std::move(view)), bytes_(bytes), has_pages_(bytes < std::numeric_limits<size_t>::max()) {}

template <typename Entries, typename Add>
bool ClusterPages::Fill(const Entries& entries, size_t* place, const Add& add) {
  for (; *place < entries.size(); ++*place) {
    if (size_ > bytes_) return false;
    size_ += add(entries[*place]);
  }
  return true;
}

template <typename Message, typename Quotas>
bool ClusterPages::FillCommon(Message* message, const Quotas& quotas) {
  message->set_version(view_.version);
  const auto add_job = [&](const auto& job) {
    return AddTo(message->mutable_jobs(), ForScheduling(*job, view_.past_work[next_job_], view_.now));
  };
  const auto add_node = [&](const auto& node) {
    return AddTo(message->mutable_nodes(), ForScheduling(*node, has_pages_));
  };
  if (!Fill(view_.jobs, &next_job_, add_job) || !Fill(view_.nodes, &next_node_, add_node)) return false;
  if (!view_.quotas.has_value()) return true;
  auto* list = quotas();
  return Fill(*view_.quotas, &next_quota_,
              [&](const v1::NamespaceQuota& quota) { return AddTo(list, quota); });
}

void ClusterPages::Next(v1::WatchClusterResponse* message) {
  size_ = 0;
  if (view_.whole) {
    v1::ClusterSnapshot* snapshot = message->mutable_snapshot();
    done_ = FillCommon(snapshot, [&] { return snapshot->mutable_quotas(); });
  } else {
    v1::ClusterChange* change = message->mutable_change();
    const auto add_job = [&](const std::string& uid) {
      change->add_gone_jobs(uid);
      return uid.size();
    };
    const auto add_node = [&](const std::string& id) {
      change->add_gone_nodes(id);
      return id.size();
    };
    done_ = FillCommon(change, [&] { return change->mutable_quotas()->mutable_quotas(); }) &&
            Fill(view_.gone_jobs, &next_gone_job_, add_job) &&
            Fill(view_.gone_nodes, &next_gone_node_, add_node);
  }
  message->set_more(!done_);
}

}  // namespace adaptdl::supervisor
