#include "services/supervisor/kubernetes/store/job_status_object.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/jobspec/limits.h"
#include "libs/kubejobs/names.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/kubernetes/store/fields.h"
#include "services/supervisor/kubernetes/store/member_object.h"
#include "services/supervisor/kubernetes/store/put.h"
#include "services/supervisor/kubernetes/store/train_object.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

using jobs::Phase;
using kube::Json;

// Many times what there is; a plan has as many members as a group.
constexpr size_t kMostPlans = 64;
constexpr size_t kMostExplanations = 256;
constexpr size_t kMostMembers = 4 * jobspec::kMaxReplicas;
// Two readings of the same moment on the steady clock differ by far less, two moments that mean something by more.
constexpr absl::Duration kSameMoment = absl::Seconds(1);

const std::vector<std::pair<Phase, const char*>>& Phases() {
  static const auto* const phases = new std::vector<std::pair<Phase, const char*>>{
      {Phase::kPending, "Pending"},     {Phase::kStarting, "Starting"},   {Phase::kRunning, "Running"},
      {Phase::kRescaling, "Rescaling"}, {Phase::kStopping, "Stopping"},   {Phase::kSucceeded, "Succeeded"},
      {Phase::kFailed, "Failed"},       {Phase::kCancelled, "Cancelled"},
  };
  return *phases;
}

const char* NameOf(Phase phase) {
  const auto known = std::find_if(Phases().begin(), Phases().end(),
                                  [phase](const auto& entry) { return entry.first == phase; });
  return known->second;
}

// ---- Writing

Json PlanObject(const jobs::Plan& plan) {
  Json object = {{"group", plan.group}, {"members", Json::array()}};
  for (const jobs::PlanMember& member : plan.members) {
    Json added = {{"node", member.node}};
    Put("replica", member.replica_id, &added);
    object["members"].push_back(std::move(added));
  }
  Put("committed", plan.committed, &object);
  Put("broken", plan.broken, &object);
  Put("offered", plan.offered, &object);
  Put("since", plan.since, &object);
  Put("readyAfter", plan.ready_after, &object);
  return object;
}

Json DecisionObject(const AllocationDecision& decision) {
  Json object = Json::object();
  Put("nodes", decision.nodes, &object);
  Put("reason", decision.reason, &object);
  Put("explanation", decision.explanation, &object);
  Put("unschedulable", decision.unschedulable, &object);
  return object;
}

void PutState(const jobs::Job& state, Json* status) {
  (*status)["phase"] = NameOf(state.phase);
  (*status)["group"] = state.group;
  Put("reason", state.reason, status);
  Put("message", state.message, status);
  Put("allocation", state.allocation, status);
  Put("lastGroup", state.last_group, status);
  for (const jobs::Plan& plan : state.plans) (*status)["plans"].push_back(PlanObject(plan));
  Put("rescales", state.rescales, status);
  Put("rescaleNote", state.rescale_note, status);
  Put("newcomerFailures", state.newcomer_failures, status);
  Put("restarts", state.restarts, status);
  Put("failures", state.failures, status);
  Put("cancelRequested", state.cancel_requested, status);
  Put("startExpired", state.start_expired, status);
  Put("tellsProgress", state.tells_progress, status);
  Put("runningSince", state.running_since, status);
  Put("runningTime", state.running_time, status);
  Put("rescalingSince", state.rescaling_since, status);
  Put("rescaleDuration", state.rescale_duration, status);
}

void PutTimes(const JobTimes& times, Json* status) {
  Put("submitTimestamp", times.submitted, status);
  Put("startTimestamp", times.started, status);
  Put("completionTimestamp", times.completed, status);
  Put("retryTimestamp", times.retry, status);
}

bool IsMember(const ReplicaRecord& replica, const jobs::Job& state) {
  return replica.replica.group() == state.group;
}

// Members of the current group by rank, then others by what they were launched as.
void Sort(const jobs::Job& state, std::vector<ReplicaRecord>* replicas) {
  const auto key = [&](const ReplicaRecord& replica) {
    return std::make_tuple(!IsMember(replica, state), IsMember(replica, state) ? replica.replica.rank() : 0,
                           replica.launch_group, replica.launch_rank);
  };
  std::sort(replicas->begin(), replicas->end(),
            [&](const ReplicaRecord& a, const ReplicaRecord& b) { return key(a) < key(b); });
}

// A fact about the program, known once all members have joined. The next leader knows by it whom to wait for.
bool AllRescaleInPlace(const jobs::Job& state, const std::vector<ReplicaRecord>& replicas) {
  int members = 0;
  for (const ReplicaRecord& replica : replicas) {
    if (!IsMember(replica, state) || !IsLive(replica.replica)) continue;
    if (!replica.rescales_in_place) return false;
    ++members;
  }
  return members > 0;
}

void PutMembers(const JobRecord& record, std::vector<ReplicaRecord> replicas, Json* status) {
  std::erase_if(replicas, [&](const ReplicaRecord& replica) { return !Counts(replica, record.state); });
  Sort(record.state, &replicas);
  const auto runs = [&](const ReplicaRecord& replica) {
    return IsMember(replica, record.state) && replica.replica.state() == v1::REPLICA_STATE_RUNNING;
  };
  (*status)["replicas"] = record.state.allocation.size();
  (*status)["readyReplicas"] = std::count_if(replicas.begin(), replicas.end(), runs);
  Put("rescalesInPlace", AllRescaleInPlace(record.state, replicas), status);
  for (const ReplicaRecord& replica : replicas) (*status)["members"].push_back(MemberObject(replica, record));
}

// ---- Reading

jobs::Plan ReadPlan(FieldReader* fields) {
  jobs::Plan plan;
  plan.group = fields->Integer("group");
  fields->Objects("members", jobspec::kMaxReplicas, [&](FieldReader* member) {
    plan.members.push_back({member->Text("replica"), member->Text("node")});
  });
  plan.committed = fields->Flag("committed");
  plan.broken = fields->Flag("broken");
  plan.offered = fields->Flag("offered");
  plan.since = fields->Time("since");
  plan.ready_after = fields->Duration("readyAfter");
  return plan;
}

void ReadDecision(FieldReader* fields, AllocationDecision* decision) {
  decision->nodes = fields->Texts("nodes", jobspec::kMaxReplicas);
  decision->reason = fields->Text("reason");
  decision->explanation = fields->Texts("explanation", kMostExplanations);
  decision->unschedulable = fields->Flag("unschedulable");
}

void ReadState(FieldReader* fields, jobs::Job* state) {
  if (!fields->Has("phase")) fields->Fail("phase", "is missing");
  state->phase = fields->Choice("phase", Phases());
  state->group = fields->Integer("group");
  state->reason = fields->Text("reason");
  state->message = fields->Text("message");
  state->allocation = fields->Texts("allocation", jobspec::kMaxReplicas);
  state->last_group = fields->Integer("lastGroup");
  fields->Objects("plans", kMostPlans, [&](FieldReader* plan) { state->plans.push_back(ReadPlan(plan)); });
  state->rescales = fields->Count("rescales");
  state->rescale_note = fields->Text("rescaleNote");
  state->newcomer_failures = fields->Count("newcomerFailures");
  state->restarts = fields->Count("restarts");
  state->failures = fields->Count("failures");
  state->cancel_requested = fields->Flag("cancelRequested");
  state->start_expired = fields->Flag("startExpired");
  state->tells_progress = fields->Flag("tellsProgress");
  state->running_since = fields->Time("runningSince");
  state->running_time = fields->Duration("runningTime");
  state->rescaling_since = fields->Time("rescalingSince");
  state->rescale_duration = fields->Duration("rescaleDuration");
}

void ReadTimes(FieldReader* fields, JobTimes* times) {
  times->submitted = fields->Time("submitTimestamp");
  times->started = fields->Time("startTimestamp");
  times->completed = fields->Time("completionTimestamp");
  times->retry = fields->Time("retryTimestamp");
}

// What others rely on: numbers grow, no replica is there twice, and ranks are places in a list.
absl::Status CheckTogether(const StoredInStatus& stored) {
  const jobs::Job& state = stored.record.state;
  int64_t newest = state.group;
  for (const jobs::Plan& plan : state.plans) {
    if (plan.group <= newest) return absl::InvalidArgumentError("status.plans: numbers do not grow");
    newest = plan.group;
  }
  if (newest > state.last_group) return absl::InvalidArgumentError("status.lastGroup: there is a larger one");
  std::set<std::string> names;
  std::set<std::pair<int64_t, int>> launches;
  int rank = 0;
  for (const ReplicaRecord& replica : stored.replicas) {
    const bool is_new = names.insert(replica.replica.replica_id()).second &&
                        launches.emplace(replica.launch_group, replica.launch_rank).second;
    if (!is_new) return absl::InvalidArgumentError("status.members: one is there twice");
    if (IsMember(replica, state) && replica.replica.rank() != rank++) {
      return absl::InvalidArgumentError("status.members: ranks are not 0, 1, 2, ...");
    }
  }
  return absl::OkStatus();
}

// In these phases all members run, or have ended.
void TakeForRunning(bool in_place, StoredInStatus* stored) {
  const jobs::Job& state = stored->record.state;
  if (state.phase != Phase::kRunning && state.phase != Phase::kRescaling) return;
  for (ReplicaRecord& replica : stored->replicas) {
    if (IsMember(replica, state) && IsLive(replica.replica)) {
      replica.replica.set_state(v1::REPLICA_STATE_RUNNING);
      replica.rescales_in_place = in_place;
    }
  }
}

void KeepTime(const char* name, const Json& before, Json* status) {
  const absl::StatusOr<absl::Time> old_time = kube::TimeFromText(kube::TextAt(before, {name}));
  const absl::StatusOr<absl::Time> new_time = kube::TimeFromText(kube::TextAt(*status, {name}));
  if (!old_time.ok() || !new_time.ok()) return;
  if (absl::AbsDuration(*old_time - *new_time) < kSameMoment) (*status)[name] = before[name];
}

}  // namespace

bool Counts(const ReplicaRecord& replica, const jobs::Job& state) {
  return IsMember(replica, state) || IsLive(replica.replica);
}

Json StatusOf(const JobRecord& record, const std::vector<ReplicaRecord>& replicas, int64_t term) {
  Json status = {{"term", term}, {"sequence", record.sequence}};
  PutState(record.state, &status);
  PutTimes(record.times, &status);
  Put("checkpointError", record.checkpoint_error, &status);
  status["selector"] = absl::StrCat(kubejobs::kJobUidLabel, "=", record.uid());
  if (Json decision = DecisionObject(record.decision); !decision.empty()) {
    status["decision"] = std::move(decision);
  }
  if (record.hints.has_value()) status["train"] = TrainOf(*record.hints);
  PutMembers(record, replicas, &status);
  return status;
}

absl::StatusOr<StoredInStatus> ReadStatus(const Json& status, std::shared_ptr<const v1::Job> job) {
  absl::Status error;
  StoredInStatus stored;
  JobRecord& record = stored.record;
  record.job = std::move(job);
  record.state = NewState(*record.job);
  FieldReader fields(status, "status", &error);
  stored.term = fields.Integer("term");
  record.sequence = fields.Integer("sequence", 1);
  ReadState(&fields, &record.state);
  ReadTimes(&fields, &record.times);
  record.checkpoint_error = fields.Text("checkpointError");
  fields.Object("decision", [&](FieldReader* decision) { ReadDecision(decision, &record.decision); });
  fields.Object("train", [&](FieldReader* train) { record.hints = ReadTrain(train); });
  fields.Objects("members", kMostMembers,
                 [&](FieldReader* member) { stored.replicas.push_back(ReadMember(record, member)); });
  const bool in_place = fields.Flag("rescalesInPlace");
  // Made of the rest.
  for (const char* name : {"replicas", "readyReplicas", "selector", "conditions"}) fields.Raw(name);
  fields.Done();
  if (record.hints.has_value()) error.Update(ValidateHints(*record.hints));
  if (!error.ok()) return error;
  Sort(record.state, &stored.replicas);
  if (absl::Status together = CheckTogether(stored); !together.ok()) return together;
  TakeForRunning(in_place, &stored);
  return stored;
}

bool HasStatus(const Json& object) { return !kube::At(object, {"status", "sequence"}).is_null(); }

void KeepSteadyTimes(const Json& before, Json* status) {
  for (const char* name : {"runningSince", "rescalingSince"}) KeepTime(name, before, status);
  const Json& plans = kube::At(before, {"plans"});
  if (!plans.is_array() || !status->contains("plans")) return;
  for (Json& plan : (*status)["plans"]) {
    for (const Json& known : plans) {
      if (kube::IntegerAt(known, {"group"}) == plan["group"]) KeepTime("since", known, &plan);
    }
  }
}

bool DiffersForGood(const Json& before, const Json& status) {
  if (!before.is_object()) return true;
  const auto what_counts = [](Json object) {
    for (const char* name : {"term", "readyReplicas"}) object.erase(name);
    return object;
  };
  return what_counts(before) != what_counts(status);
}

}  // namespace adaptdl::supervisor
