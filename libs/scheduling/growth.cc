#include "libs/scheduling/growth.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "libs/scheduling/cluster_state.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {
namespace {

constexpr double kRounding = 1e-9;

int Span(const Placement& placement) { return static_cast<int>(placement.size()); }

}  // namespace

int StartSize(const JobInfo& job) {
  for (int replicas = job.min_replicas; replicas <= job.max_replicas; ++replicas) {
    if (job.speedup->At(1, replicas) > 0 || job.speedup->At(2, replicas) > 0) return replicas;
  }
  return job.min_replicas;
}

Grower::Grower(const GrowthOptions& options, ClusterState* state)
    : options_(options), state_(state), holders_(state->node_count()), last_gain_(state->job_count(), 0) {
  for (int job = 0; job < state->job_count(); ++job) {
    const Placement& present = state->present(job);
    for (const Share& held : present) holders_[held.node].push_back(job);
    const int count = CountReplicas(present);
    if (count == 0) continue;
    last_gain_[job] = (state->Speedup(job, present) - state->Speedup(job, Span(present), count - 1)) /
                      state->DominantShare(job);
  }
}

double Grower::DisplacementCost(int node) const {
  double least = -1;
  if (node >= static_cast<int>(holders_.size())) return 0;
  for (const int job : holders_[node]) {
    if (state_->present_on(job, node) <= state_->replicas_on(job, node)) continue;
    if (least < 0 || last_gain_[job] < least) least = last_gain_[job];
  }
  return std::max(least, 0.0);
}

int Grower::TightestNode(int job, int replicas, Room room) const {
  int best = -1;
  // A job that can't be moved stays off nodes that may go away, if it can.
  const bool wants_lasting = !state_->job(job).preemptible;
  std::tuple<double, bool, int64_t, bool, bool> best_rank;
  for (int node = 0; node < state_->node_count(); ++node) {
    if (!state_->HasRoom(job, node, replicas, room)) continue;
    const double displaced = room == Room::kUnclaimed ? 0 : DisplacementCost(node);
    const bool fleeting = state_->node_preemptible(node);
    const auto rank = std::make_tuple(displaced, wants_lasting && fleeting, state_->Leftover(job, node, room),
                                      state_->IsIdle(node), fleeting);
    if (best >= 0 && !(rank < best_rank)) continue;
    best = node;
    best_rank = rank;
  }
  return best;
}

bool Grower::PlaceRest(int job, int replicas, Room room) {
  const int single = state_->replicas(job) == 0 ? TightestNode(job, replicas, room) : -1;
  if (single >= 0) {
    state_->Add(job, single, replicas);
    return true;
  }
  // Spread over the nodes with most room, those that the job uses already first.
  std::vector<std::tuple<int, int, int>> order;
  int total = 0;
  for (int node = 0; node < state_->node_count(); ++node) {
    const int fits = state_->RoomFor(job, node, room);
    if (fits == 0) continue;
    total += fits;
    order.emplace_back(state_->replicas_on(job, node) > 0 ? 0 : 1, -fits, node);
  }
  if (total < replicas) return false;
  std::sort(order.begin(), order.end());
  for (const auto& [unused, negative_room, node] : order) {
    const int taken = std::min(replicas, -negative_room);
    if (taken == 0) break;
    state_->Add(job, node, taken);
    replicas -= taken;
  }
  return true;
}

bool Grower::Admit(int job) {
  int left = StartSize(state_->job(job));
  Placement held = state_->present(job);
  std::stable_sort(held.begin(), held.end(),
                   [](const Share& a, const Share& b) { return a.replicas > b.replicas; });
  for (const Share& share : held) {
    const int taken = std::min({left, share.replicas, state_->RoomFor(job, share.node, Room::kAny)});
    if (taken > 0) state_->Add(job, share.node, taken);
    left -= taken;
  }
  if (left == 0) return true;
  for (const Room room : {Room::kUnclaimed, Room::kSpareCores, Room::kAny}) {
    if (PlaceRest(job, left, room)) return true;
  }
  state_->Clear(job);
  return false;
}

double Grower::GainOn(int job, int node, int replicas) const {
  const int span = Span(state_->placement(job)) + (state_->replicas_on(job, node) > 0 ? 0 : 1);
  return state_->Speedup(job, span, state_->replicas(job) + replicas) - state_->Speedup(job);
}

Grower::Step Grower::MakeStep(int job, int node, int replicas, double gain, Room room) const {
  Step step;
  step.job = job;
  step.node = node;
  step.replicas = replicas;
  step.gain = gain;
  step.room = room;
  // What a job holds at present weighs a little more, so that equals do not swap places.
  const bool regained = state_->replicas(job) + replicas <= CountReplicas(state_->present(job));
  step.rank = gain / replicas / state_->DominantShare(job) * (regained ? 1 + options_.hysteresis : 1);
  return step;
}

std::optional<Grower::Step> Grower::NextStepOn(int job, int node) const {
  if (state_->replicas(job) >= state_->job(job).max_replicas) return std::nullopt;
  if (!state_->HasRoom(job, node, 1, Room::kAny)) return std::nullopt;
  const double gain = GainOn(job, node, 1);
  if (gain < options_.least_gain) return std::nullopt;
  return MakeStep(job, node, 1, gain, Room::kAny);
}

std::optional<Grower::Step> Grower::NextStep(int job) const {
  if (state_->replicas(job) >= state_->job(job).max_replicas) return std::nullopt;
  const auto consider = [&](int node, Room room, std::optional<Step>* best) {
    if (best->has_value() || node < 0) return;
    const double gain = GainOn(job, node, 1);
    if (gain >= options_.least_gain) *best = MakeStep(job, node, 1, gain, room);
  };
  std::optional<Step> step;
  // Where the job is at present, then more on its nodes, then elsewhere: first without disturbing anybody.
  for (const Share& held : state_->present(job)) {
    if (held.replicas <= state_->replicas_on(job, held.node)) continue;
    if (state_->HasRoom(job, held.node, 1, Room::kAny)) consider(held.node, Room::kAny, &step);
  }
  for (const Room room : {Room::kUnclaimed, Room::kAny}) {
    if (step) break;
    for (const Share& own : state_->placement(job)) {
      if (state_->HasRoom(job, own.node, 1, room)) consider(own.node, room, &step);
    }
    if (!step) consider(TightestNode(job, 1, room), room, &step);
  }
  if (!step || state_->replicas_on(job, step->node) == 0) {
    // The next replica would be on another node than the rest, or there is none: what if all were on one?
    const std::optional<Step> whole = Relocation(job);
    const bool holds = !state_->present(job).empty();
    // One node is better than two that are as fast; but a job that has a place leaves it only for a gain.
    const double margin = holds ? options_.hysteresis * state_->Speedup(job) : -kRounding;
    if (whole && whole->gain > (step ? step->gain + margin : 0)) step = whole;
  }
  return step ? step : Leap(job);
}

std::optional<Grower::Step> Grower::Relocation(int job) const {
  const int replicas = state_->replicas(job) + 1;
  const double gain = state_->Speedup(job, 1, replicas) - state_->Speedup(job);
  if (gain < options_.least_gain) return std::nullopt;
  const int node = TightestNode(job, replicas, Room::kUnclaimed);
  if (node < 0) return std::nullopt;
  Step step = MakeStep(job, node, 1, gain, Room::kUnclaimed);
  step.relocate = true;
  return step;
}

// A second node slows many jobs down before it speeds them up, and some jobs may have certain sizes only:
// several replicas at once may gain where one doesn't.
std::optional<Grower::Step> Grower::Leap(int job) const {
  if (Span(state_->placement(job)) != 1 && state_->job(job).allowed_replicas.empty()) return std::nullopt;
  const int replicas = state_->replicas(job);
  const double now = state_->Speedup(job);
  int room = -1;
  for (int more = 2; replicas + more <= state_->job(job).max_replicas; ++more) {
    const double gain = state_->Speedup(job, 2, replicas + more) - now;
    if (gain < more * options_.least_gain) continue;
    if (room < 0) {
      room = 0;
      for (int node = 0; node < state_->node_count(); ++node)
        room += state_->RoomFor(job, node, Room::kUnclaimed);
    }
    if (room < more) return std::nullopt;
    return MakeStep(job, -1, more, gain, Room::kUnclaimed);
  }
  return std::nullopt;
}

bool Grower::IsStillPossible(const Step& step) const {
  if (step.node < 0) return false;  // not worth finding out: look for the next step anew
  const int replicas = step.replicas + (step.relocate ? state_->replicas(step.job) : 0);
  return state_->HasRoom(step.job, step.node, replicas, step.room);
}

bool Grower::Apply(const Step& step) {
  if (step.relocate) {
    const int replicas = state_->replicas(step.job) + step.replicas;
    state_->Clear(step.job);
    state_->Add(step.job, step.node, replicas);
    return true;
  }
  if (step.node < 0) return PlaceRest(step.job, step.replicas, Room::kUnclaimed);
  state_->Add(step.job, step.node, step.replicas);
  return true;
}

std::vector<Grower::Gain> Grower::Run(const std::vector<int>& jobs, int only_node) {
  std::vector<Gain> gains;
  const auto next = [&](int job) { return only_node >= 0 ? NextStepOn(job, only_node) : NextStep(job); };
  // Of equals, the job that was submitted first.
  const auto later = [](const Step& a, const Step& b) {
    return std::make_pair(a.rank, -a.job) < std::make_pair(b.rank, -b.job);
  };
  std::priority_queue<Step, std::vector<Step>, decltype(later)> queue(later);
  for (const int job : jobs) {
    if (state_->replicas(job) == 0) continue;
    if (const std::optional<Step> step = next(job)) queue.push(*step);
  }
  while (!queue.empty()) {
    const Step top = queue.top();
    queue.pop();
    // Others may have taken the room since; room never comes back, so a step only gets worse.
    std::optional<Step> step = top;
    if (!IsStillPossible(top)) {
      step = next(top.job);
      if (!step) continue;
      if (!queue.empty() && later(*step, queue.top())) {
        queue.push(*step);
        continue;
      }
    }
    if (!Apply(*step)) continue;
    gains.push_back({step->job, step->gain});
    if (const std::optional<Step> following = next(top.job)) queue.push(*following);
  }
  return gains;
}

void Grower::Grow(const std::vector<int>& jobs) { Run(jobs, -1); }

std::vector<Grower::Gain> Grower::GrowOnto(int node, const std::vector<int>& jobs) { return Run(jobs, node); }

}  // namespace adaptdl::scheduling
