#include "libs/elastic/job/step_agreement.h"

#include <vector>

#include "absl/types/span.h"

namespace adaptdl::elastic {

// The last number counts the members.
std::vector<double> StepAgreement::Local(bool in_step) const {
  std::vector<double> numbers;
  for (SignalSource* source : sources_) {
    const size_t begin = numbers.size();
    numbers.resize(begin + source->num_signals());
    source->Offer(in_step, absl::MakeSpan(numbers).subspan(begin));
  }
  numbers.push_back(1);
  return numbers;
}

void StepAgreement::AgreeOn(absl::Span<const double> sums) {
  last_.assign(sums.begin(), sums.end());
  size_t begin = 0;
  for (SignalSource* source : sources_) {
    source->OnAgreed(sums.subspan(begin, source->num_signals()), static_cast<int>(sums.back()));
    begin += source->num_signals();
  }
}

}  // namespace adaptdl::elastic
