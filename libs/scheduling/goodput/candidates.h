// What of a selection problem (multiple_choice.h) is worth considering, and a selection in the making.
//
// Not thread-safe; functions are pure.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_CANDIDATES_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_CANDIDATES_H_

#include <cstddef>
#include <vector>

#include "libs/scheduling/goodput/multiple_choice.h"

namespace adaptdl::scheduling {

// Values that differ by no more are equal.
inline constexpr double kValueRounding = 1e-12;

// An option, and its place in its group.
struct Candidate {
  double value = 0;
  int pool = 0;
  int amount = 0;
  int index = 0;
};

// By group; in order of pool and amount, whose values ascend strictly.
using Candidates = std::vector<std::vector<Candidate>>;

// The problem's options without those that can't be chosen, and those that another one of the same pool makes useless.
Candidates Sift(const ChoiceProblem& problem);

// Positions in the candidates by group, and what is left in each pool: less than nothing, if that is what was chosen.
class Selection {
 public:
  // Nothing is chosen. `candidates` must outlive it.
  Selection(const Candidates& candidates, const std::vector<int>& capacity)
      : candidates_(candidates), chosen_(candidates.size(), -1), left_(capacity) {}

  // -1: nothing.
  void Choose(size_t group, int position);
  // All groups' choices of another one of the same candidates.
  void Take(const Selection& other);

  // The group's present choice; null if there is none.
  const Candidate* At(size_t group) const {
    return chosen_[group] < 0 ? nullptr : &candidates_[group][chosen_[group]];
  }
  int left(int pool) const { return left_[pool]; }
  int pools() const { return static_cast<int>(left_.size()); }
  double value() const { return value_; }
  const std::vector<int>& chosen() const { return chosen_; }

 private:
  const Candidates& candidates_;
  std::vector<int> chosen_;
  std::vector<int> left_;
  double value_ = 0;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_CANDIDATES_H_
