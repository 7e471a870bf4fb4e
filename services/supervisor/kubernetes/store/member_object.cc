#include "services/supervisor/kubernetes/store/member_object.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/supervisor/kubernetes/store/put.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

constexpr int kLargestRank = 1 << 20;

template <typename Value>
using Names = std::vector<std::pair<Value, const char*>>;

// The first of each is the default.
const Names<v1::ReplicaState>& States() {
  static const auto* const names =
      new Names<v1::ReplicaState>{{v1::REPLICA_STATE_EXITED, "Exited"}, {v1::REPLICA_STATE_LOST, "Lost"}};
  return *names;
}

const Names<jobs::LossCause>& Losses() {
  using jobs::LossCause;
  static const auto* const names = new Names<LossCause>{{LossCause::kNone, ""},
                                                        {LossCause::kNode, "Node"},
                                                        {LossCause::kVanished, "Vanished"},
                                                        {LossCause::kNotStarted, "NotStarted"}};
  return *names;
}

const Names<v1::EndCause>& Causes() {
  static const auto* const names = new Names<v1::EndCause>{{v1::END_CAUSE_UNSPECIFIED, ""},
                                                           {v1::END_CAUSE_JOB, "Job"},
                                                           {v1::END_CAUSE_NODE, "Node"},
                                                           {v1::END_CAUSE_STORAGE, "Storage"},
                                                           {v1::END_CAUSE_PREEMPTION, "Preemption"},
                                                           {v1::END_CAUSE_IMAGE, "Image"}};
  return *names;
}

template <typename Value>
const char* NameOf(Value value, const Names<Value>& names) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return names[0].second;
}

// As all are named (jobs/orders.cc).
std::string UsualName(const JobRecord& job, const ReplicaRecord& replica) {
  return absl::StrCat(job.state.id_prefix, "-", replica.launch_group, "-", replica.launch_rank);
}

Json EndObject(const ReplicaRecord& record) {
  const v1::Replica& replica = record.replica;
  Json end = {{"state", NameOf(replica.state(), States())}};
  Put("exitCode", replica.exit_code(), &end);
  Put("signal", replica.signal(), &end);
  Put("loss", NameOf(record.loss, Losses()), &end);
  Put("cause", NameOf(replica.end_cause(), Causes()), &end);
  Put("message", replica.message(), &end);
  Put("startTimestamp", ToTimeIf(replica.has_start_time(), replica.start_time()), &end);
  Put("endTimestamp", ToTimeIf(replica.has_end_time(), replica.end_time()), &end);
  return end;
}

void ReadEnd(FieldReader* fields, ReplicaRecord* record) {
  v1::Replica& replica = record->replica;
  replica.set_state(fields->Choice("state", States()));
  replica.set_exit_code(static_cast<int32_t>(fields->Integer("exitCode", INT32_MIN, INT32_MAX)));
  replica.set_signal(static_cast<int32_t>(fields->Integer("signal", 0, INT32_MAX)));
  record->loss = fields->Choice("loss", Losses());
  replica.set_end_cause(fields->Choice("cause", Causes()));
  replica.set_message(fields->Text("message"));
  const absl::Time start = fields->Time("startTimestamp");
  const absl::Time end = fields->Time("endTimestamp");
  if (start != absl::InfinitePast()) *replica.mutable_start_time() = ToProto(start);
  if (end != absl::InfinitePast()) *replica.mutable_end_time() = ToProto(end);
}

}  // namespace

Json MemberObject(const ReplicaRecord& replica, const JobRecord& job) {
  Json member = {{"launchGroup", replica.launch_group},
                 {"launchRank", replica.launch_rank},
                 {"node", replica.replica.node_id()}};
  if (replica.replica.replica_id() != UsualName(job, replica)) {
    member["replica"] = replica.replica.replica_id();
  }
  if (replica.replica.group() != replica.launch_group || replica.replica.rank() != replica.launch_rank) {
    member["group"] = replica.replica.group();
    member["rank"] = replica.replica.rank();
  }
  Put("stopRequested", replica.stop_requested, &member);
  Put("nodeLeaving", replica.node_leaving, &member);
  Put("endHandled", replica.end_handled, &member);
  Put("masterPort", replica.master_port, &member);
  if (!IsLive(replica.replica)) member["end"] = EndObject(replica);
  return member;
}

ReplicaRecord ReadMember(const JobRecord& job, FieldReader* fields) {
  ReplicaRecord record;
  record.job_uid = job.uid();
  record.launch_group = fields->Integer("launchGroup");
  record.launch_rank = static_cast<int>(fields->Integer("launchRank", 0, kLargestRank));
  v1::Replica& replica = record.replica;
  replica.set_node_id(fields->Text("node"));
  const std::string name = fields->Text("replica");
  replica.set_replica_id(name.empty() ? UsualName(job, record) : name);
  const bool moved = fields->Has("group");
  const int64_t group = fields->Integer("group");
  const auto rank = static_cast<int32_t>(fields->Integer("rank", 0, kLargestRank));
  replica.set_group(moved ? group : record.launch_group);
  replica.set_rank(moved ? rank : record.launch_rank);
  record.stop_requested = fields->Flag("stopRequested");
  record.node_leaving = fields->Flag("nodeLeaving");
  record.end_handled = fields->Flag("endHandled");
  record.master_port = static_cast<int>(fields->Integer("masterPort", 0, 65535));
  replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  fields->Object("end", [&](FieldReader* end) { ReadEnd(end, &record); });
  return record;
}

}  // namespace adaptdl::supervisor
