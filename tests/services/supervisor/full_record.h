// A job's record in which every field has a value of its own that is not the default.
//
// The structured bindings name every field: one that is added breaks the build here, until somebody has filled
// it in and has looked at what is made of records (store/job_codec.cc, state/job_status.cc, and the texts and
// times in state/transaction.cc).

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_FULL_RECORD_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_FULL_RECORD_H_

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/supervisor/store/convert.h"
#include "services/supervisor/store/records.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {

// Another one for each place; of whole microseconds, which is what earlier versions kept of some.
inline absl::Time At(int place) { return absl::FromUnixMicros(1'000'000'000'000'000 + 1'000'001 * place); }

inline void Fill(int64_t number, jobs::Plan* plan) {
  auto& [group, members, committed, broken, offered, since, ready_after] = *plan;
  group = number;
  for (const char* name : {"a", "b"}) {
    auto& [replica_id, node] = members.emplace_back();
    replica_id = absl::StrCat("replica-", name, "-", number);
    node = absl::StrCat("node-", name, "-", number);
  }
  committed = true;
  broken = true;
  offered = true;
  since = At(static_cast<int>(number));
  ready_after = absl::Milliseconds(1500 + number);
}

inline void Fill(const v1::Job& user_job, jobs::Job* job) {
  *job = NewState(user_job);
  auto& [id_prefix, preemptible, rescales_in_place, min_replicas, max_replicas, allowed_replicas,
         max_restarts, suspended, phase, reason, message, group, allocation, last_group, plans, rescales,
         rescale_note, newcomer_failures, restarts, failures, faults, cancel_requested, start_expired,
         starting_since, retry_time, running_since, start_time, completion_time, running_time, tells_progress,
         rescaling_since, rescale_duration] = *job;
  phase = jobs::Phase::kRescaling;
  reason = "Rescaling";
  message = "group 3 → 4";
  group = 3;
  allocation = {"n1", "n1", "n2"};
  last_group = 9;
  Fill(4, &plans.emplace_back());
  Fill(5, &plans.emplace_back());
  rescales = 11;
  rescale_note = "grew";
  newcomer_failures = 12;
  restarts = 13;
  failures = 14;
  faults = 15;
  cancel_requested = true;
  start_expired = true;
  starting_since = At(21);
  retry_time = At(22);
  running_since = At(23);
  start_time = At(24);
  completion_time = At(25);
  running_time = absl::Milliseconds(2500);
  tells_progress = true;
  rescaling_since = At(26);
  rescale_duration = absl::Milliseconds(3500);
}

inline void Fill(AllocationDecision* decision) {
  auto& [nodes, reason, explanation, unschedulable] = *decision;
  nodes = {"n3", "n4"};
  reason = "goodput";
  explanation = {"One.", "Two."};
  unschedulable = true;
}

inline void Fill(JobTimes* times) {
  auto& [submitted, started, completed, retry, estimated_completion] = *times;
  submitted = At(31);
  started = At(32);
  completed = At(33);
  retry = At(34);
  estimated_completion = At(35);
}

inline std::shared_ptr<const v1::Job> UserJob() {
  auto job = std::make_shared<v1::Job>(*MakeJob(7).job);
  v1::JobSpec* spec = job->mutable_spec();
  spec->set_rescale(v1::RESCALE_MODE_IN_PLACE);
  spec->set_min_replicas(2);
  spec->set_max_replicas(8);
  for (const int count : {2, 4, 8}) spec->add_allowed_replicas(count);
  spec->set_max_restarts(5);
  spec->set_suspend(true);
  return job;
}

inline JobRecord FullRecord() {
  JobRecord record;
  auto& [sequence, job, state, decision, times, hints, progress, checkpoint_error, tokens] = record;
  sequence = 7;
  job = UserJob();
  Fill(*job, &state);
  Fill(&decision);
  Fill(&times);
  hints.emplace().set_init_batch_size(64);
  progress.emplace().set_fraction(0.25);
  checkpoint_error = "disk full";
  tokens = {{3, "three"}, {4, "four"}, {5, "five"}};
  return record;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_FULL_RECORD_H_
