#include "libs/scheduling/goodput/packer.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace adaptdl::scheduling {
namespace {

// Nodes that are looked at to make room for one job; bounds the time of a decision on large clusters.
constexpr size_t kMostEvacuations = 64;

int On(const Placement& placement, int node) {
  for (const Share& share : placement) {
    if (share.node == node) return share.replicas;
  }
  return 0;
}

void SortByNode(Placement* placement) {
  std::sort(placement->begin(), placement->end(),
            [](const Share& a, const Share& b) { return a.node < b.node; });
}

}  // namespace

Packer::Packer(const ClusterModel& model)
    : model_(model),
      nodes_(model.pools().size()),
      guests_(model.node_count()),
      distributed_(model.node_count(), 0),
      occupied_(model.node_count(), 0),
      keeps_(model.job_count(), 0),
      placed_(model.job_count()) {
  const size_t size = static_cast<size_t>(model.node_count()) * model.resources();
  if (size > 0) free_.assign(model.free(0), model.free(0) + size);
  for (int job = 0; job < model.job_count(); ++job) {
    if (!model.job(job).pinned) continue;
    placed_[job] = model.job(job).present;
    for (const Share& share : placed_[job]) {
      occupied_[share.node] = 1;
      if (placed_[job].size() > 1) ++distributed_[share.node];
    }
  }
  std::vector<std::vector<NodeKey>> keys(model.pools().size());
  for (int node = 0; node < model.node_count(); ++node) {
    const int pool = model.pool_of(node);
    if (pool >= 0) keys[pool].push_back(KeyOf(node));
  }
  for (size_t pool = 0; pool < keys.size(); ++pool) {
    // A set is made of what is in order in linear time.
    std::sort(keys[pool].begin(), keys[pool].end());
    nodes_[pool] = std::set<NodeKey>(keys[pool].begin(), keys[pool].end());
  }
}

Packer::NodeKey Packer::KeyOf(int node) const {
  const int64_t* left = &free_[static_cast<size_t>(node) * model_.resources()];
  return {model_.UnitsIn(model_.pool_of(node), left), IsFleeting(node), node};
}

bool Packer::IsFleeting(int node) const { return model_.view().nodes[node].preemptible; }

int Packer::RoomFor(int job, int node) const {
  const int64_t* left = &free_[static_cast<size_t>(node) * model_.resources()];
  const std::vector<int64_t>& need = model_.job(job).need;
  int64_t times = 1 << 14;
  for (size_t r = 0; r < need.size(); ++r) {
    if (need[r] > 0) times = std::min(times, std::max<int64_t>(left[r], 0) / need[r]);
  }
  return static_cast<int>(times);
}

void Packer::Take(int job, int node, int replicas) {
  const int pool = model_.pool_of(node);
  int64_t* left = &free_[static_cast<size_t>(node) * model_.resources()];
  nodes_[pool].erase(KeyOf(node));
  const std::vector<int64_t>& need = model_.job(job).need;
  for (size_t r = 0; r < need.size(); ++r) left[r] -= need[r] * replicas;
  nodes_[pool].insert(KeyOf(node));
}

bool Packer::Stay(int job, bool keeps) {
  const Placement& present = model_.job(job).present;
  for (const Share& share : present) {
    if (RoomFor(job, share.node) < share.replicas) return false;
  }
  for (const Share& share : present) {
    Take(job, share.node, share.replicas);
    guests_[share.node].push_back(job);
    if (present.size() > 1) ++distributed_[share.node];
  }
  placed_[job] = present;
  keeps_[job] = keeps ? 1 : 0;
  return true;
}

void Packer::Remove(int job) {
  for (const Share& share : placed_[job]) {
    Take(job, share.node, -share.replicas);
    std::vector<int>& guests = guests_[share.node];
    guests.erase(std::find(guests.begin(), guests.end(), job));
    if (placed_[job].size() > 1) --distributed_[share.node];
  }
  placed_[job].clear();
}

bool Packer::Place(int job, int pool, int replicas, Effort effort) {
  const bool one_node = replicas <= model_.job(job).per_node[pool];
  const auto in_one_piece = [&] {
    return one_node ? PlaceOnOneNode(job, pool, replicas) : PlaceOnOwnNodes(job, pool, replicas);
  };
  bool done = false;
  switch (effort) {
    case Effort::kInOnePiece:
      done = in_one_piece();
      break;
    case Effort::kMoveOthers: {
      // Nodes with most room first: fewest jobs have to go.
      std::vector<int> order;
      for (auto it = nodes_[pool].rbegin(); it != nodes_[pool].rend() && order.size() < kMostEvacuations;
           ++it)
        order.push_back(std::get<2>(*it));
      const int wanted = one_node ? replicas : model_.job(job).per_node[pool];
      for (const int node : order) {
        if (done) break;
        if (guests_[node].empty()) continue;
        if (Evacuate(node, job, std::min(wanted, replicas))) done = in_one_piece();
      }
      break;
    }
    case Effort::kSpread:
      done = PlaceAnywhere(job, pool, replicas, true) || PlaceAnywhere(job, pool, replicas, false);
      break;
  }
  if (!done) return false;
  SortByNode(&placed_[job]);
  for (const Share& share : placed_[job]) {
    guests_[share.node].push_back(job);
    if (placed_[job].size() > 1) ++distributed_[share.node];
  }
  return true;
}

bool Packer::Prefers(int job, int node) const {
  return model_.view().jobs[job].preemptible || !IsFleeting(node);
}

std::set<Packer::NodeKey>::const_iterator Packer::FirstWithRoom(int job, int pool, int replicas) const {
  // The units are those of the GPUs; a job without any finds room on a node that has none left.
  const int units = model_.NeedsGpu(job) ? model_.UnitsOf(job, pool, replicas) : 0;
  return nodes_[pool].lower_bound({units, false, -1});
}

int Packer::FindNode(const Search& search) const {
  int best = -1;
  int most_own = 0;
  for (const Share& own : model_.job(search.job).present) {
    if (own.node == search.except || model_.pool_of(own.node) != search.pool || own.replicas <= most_own)
      continue;
    if (search.lasting && !Prefers(search.job, own.node)) continue;
    if (RoomFor(search.job, own.node) < search.replicas) continue;
    best = own.node;
    most_own = own.replicas;
  }
  if (best >= 0) return best;
  for (auto it = FirstWithRoom(search.job, search.pool, search.replicas); it != nodes_[search.pool].end();
       ++it) {
    const int node = std::get<2>(*it);
    if (node == search.except || (search.lasting && !Prefers(search.job, node))) continue;
    if (RoomFor(search.job, node) >= search.replicas) return node;
  }
  return -1;
}

int Packer::FindLastingNode(Search search) const {
  search.lasting = true;
  const int node = FindNode(search);
  if (node >= 0 || model_.view().jobs[search.job].preemptible) return node;
  search.lasting = false;
  return FindNode(search);
}

bool Packer::PlaceOnOneNode(int job, int pool, int replicas) {
  const int node = FindLastingNode({job, pool, replicas});
  if (node < 0) return false;
  Take(job, node, replicas);
  placed_[job].push_back({node, replicas});
  return true;
}

bool Packer::PlaceOnOwnNodes(int job, int pool, int replicas) {
  // Own nodes first, then those that last if the job can't be moved. Only nodes that nobody else is on.
  std::vector<Candidate> candidates;
  for (auto it = nodes_[pool].rbegin(); it != nodes_[pool].rend(); ++it) {
    const int node = std::get<2>(*it);
    if (std::get<0>(*it) == 0) break;
    if (occupied_[node] || !guests_[node].empty()) continue;
    const bool foreign = On(model_.job(job).present, node) == 0;
    candidates.push_back({foreign, !Prefers(job, node), RoomFor(job, node), node});
  }
  return TakeInOrder(job, replicas, std::move(candidates));
}

bool Packer::PlaceAnywhere(int job, int pool, int replicas, bool avoid_distributed) {
  std::vector<Candidate> candidates;
  // Where units are a guess, there may be room where they say that there is none.
  auto it = model_.exact_units() ? FirstWithRoom(job, pool, 1) : nodes_[pool].begin();
  for (; it != nodes_[pool].end(); ++it) {
    const int node = std::get<2>(*it);
    if (avoid_distributed && distributed_[node] > 0) continue;
    const bool foreign = On(model_.job(job).present, node) == 0;
    candidates.push_back({!Prefers(job, node), foreign, RoomFor(job, node), node});
  }
  return TakeInOrder(job, replicas, std::move(candidates));
}

bool Packer::TakeInOrder(int job, int replicas, std::vector<Candidate> candidates) {
  std::erase_if(candidates, [](const Candidate& candidate) { return candidate.room == 0; });
  int total = 0;
  for (const Candidate& candidate : candidates) total += candidate.room;
  if (total < replicas) return false;
  const auto rank = [](const Candidate& c) { return std::tuple(c.first, c.second, -c.room); };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    return std::pair(rank(a), a.node) < std::pair(rank(b), b.node);
  });
  int left = replicas;
  int lasting = 0;
  for (auto group = candidates.begin(); left > 0;) {
    const auto end =
        std::find_if(group, candidates.end(), [&](const Candidate& c) { return rank(c) != rank(*group); });
    // Of nodes that are as good, the least that the job needs goes to those that last, and the rest to the others.
    auto next = group;
    auto last = std::stable_partition(group, end, [&](const Candidate& c) { return !IsFleeting(c.node); });
    auto fleeting = last;
    while (left > 0 && (next != last || fleeting != end)) {
      const bool wants_lasting = lasting < model_.view().jobs[job].min_replicas;
      const bool takes_lasting = next != last && (wants_lasting || fleeting == end);
      const Candidate& candidate = takes_lasting ? *next++ : *fleeting++;
      const int taken = std::min(left, candidate.room);
      Take(job, candidate.node, taken);
      placed_[job].push_back({candidate.node, taken});
      left -= taken;
      if (takes_lasting) lasting += taken;
    }
    group = end;
  }
  return true;
}

bool Packer::Evacuate(int node, int job, int replicas) {
  const auto priority = [this](int of) { return model_.view().jobs[of].priority; };
  // Small jobs first: they find another place most easily.
  std::vector<int> guests = guests_[node];
  std::stable_sort(guests.begin(), guests.end(),
                   [&](int a, int b) { return CountReplicas(placed_[a]) < CountReplicas(placed_[b]); });
  std::vector<std::pair<int, Placement>> before;
  for (const int guest : guests) {
    if (RoomFor(job, node) >= replicas) break;
    if (placed_[guest].size() > 1 || (keeps_[guest] != 0 && priority(guest) >= priority(job))) continue;
    const Placement old = placed_[guest];
    if (MoveAway(guest, node)) before.emplace_back(guest, old);
  }
  if (RoomFor(job, node) >= replicas) return true;
  for (auto it = before.rbegin(); it != before.rend(); ++it) {
    Remove(it->first);
    Take(it->first, node, it->second.front().replicas);
    guests_[node].push_back(it->first);
    placed_[it->first] = it->second;
  }
  return false;
}

bool Packer::MoveAway(int job, int from) {
  const int replicas = CountReplicas(placed_[job]);
  const int to = FindLastingNode({job, model_.pool_of(from), replicas, from});
  if (to < 0) return false;
  Remove(job);
  Take(job, to, replicas);
  guests_[to].push_back(job);
  placed_[job] = {{to, replicas}};
  return true;
}

}  // namespace adaptdl::scheduling
