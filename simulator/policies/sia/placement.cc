#include "simulator/policies/sia/placement.h"

#include <algorithm>
#include <numeric>

namespace adaptdl::simulator::sia {
namespace {

class Placer {
 public:
  Placer(const std::vector<Seat>& seats, const std::vector<int>& free)
      : seats_(seats), free_(free), wanted_(free.size(), 0), result_(seats.size()) {
    for (const Seat& seat : seats) {
      for (const int node : seat.present) wanted_[node] += seat.gpus / seat.nodes;
    }
  }

  // Returns whether all fit.
  bool Place(bool stay_first) {
    std::vector<int> order(seats_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const bool a_moves = seats_[a].present.empty();
      const bool b_moves = seats_[b].present.empty();
      if (stay_first && a_moves != b_moves) return b_moves;
      if (seats_[a].gpus != seats_[b].gpus && !(seats_[a].nodes > 1 && seats_[b].nodes > 1)) {
        return seats_[a].gpus > seats_[b].gpus;
      }
      return a_moves != b_moves ? b_moves : seats_[a].gpus > seats_[b].gpus;
    });
    bool all = true;
    for (const int seat : order) all &= Stay(seat) || BestFit(seat);
    return all;
  }

  std::vector<std::vector<int>> TakeResult() { return std::move(result_); }

 private:
  bool Stay(int seat) {
    const std::vector<int>& present = seats_[seat].present;
    const int each = seats_[seat].gpus / seats_[seat].nodes;
    if (present.empty() ||
        std::any_of(present.begin(), present.end(), [&](int node) { return free_[node] < each; })) {
      return false;
    }
    Take(seat, present);
    return true;
  }

  // On the nodes with least to spare; of equals, on those that fewest want to stay on.
  bool BestFit(int seat) {
    const int each = seats_[seat].gpus / seats_[seat].nodes;
    std::vector<int> nodes;
    for (int node = 0; node < static_cast<int>(free_.size()); ++node) {
      if (free_[node] >= each) nodes.push_back(node);
    }
    const size_t count = seats_[seat].nodes;
    if (nodes.size() < count) return false;
    std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) {
      return free_[a] != free_[b] ? free_[a] < free_[b] : wanted_[a] < wanted_[b];
    });
    nodes.resize(count);
    std::sort(nodes.begin(), nodes.end());
    Take(seat, nodes);
    return true;
  }

  void Take(int seat, const std::vector<int>& nodes) {
    for (const int node : nodes) free_[node] -= seats_[seat].gpus / seats_[seat].nodes;
    result_[seat] = nodes;
  }

  const std::vector<Seat>& seats_;
  std::vector<int> free_;
  std::vector<int> wanted_;  // GPUs by node that somebody has there at present and is to keep
  std::vector<std::vector<int>> result_;
};

}  // namespace

std::vector<std::vector<int>> PlaceSeats(const std::vector<Seat>& seats, const std::vector<int>& free) {
  Placer gentle(seats, free);
  if (gentle.Place(/*stay_first=*/true)) return gentle.TakeResult();
  Placer strict(seats, free);
  strict.Place(/*stay_first=*/false);
  return strict.TakeResult();
}

}  // namespace adaptdl::simulator::sia
