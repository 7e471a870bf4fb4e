// News from one replica to all: texts, sent with the step whose exchange carries the word that there are
// some, and handed to whoever subscribed to their topic, in order of rank, on all replicas at the same step.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_NEWS_BUS_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_NEWS_BUS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "libs/elastic/job/step_agreement.h"

namespace adaptdl::elastic {

class NewsBus final : public SignalSource {
 public:
  // Sends `text` to all replicas, this one included.
  void Announce(const std::string& topic, const std::string& text) { news_.emplace_back(topic, text); }

  using Handler = std::function<void(int rank, const std::string& text)>;
  // Null: no more. One per topic.
  void Subscribe(const std::string& topic, Handler handler);

  // Whether some replica has news, as agreed on.
  bool due() const { return due_; }
  // Collective: `gather` gives every replica's text, in order of rank; or none, then the news are lost.
  void Exchange(const std::function<std::vector<std::string>(const std::string& own)>& gather);

  size_t num_signals() const override { return 1; }
  void Offer(bool /*in_step*/, absl::Span<double> signals) override { signals[0] = news_.empty() ? 0 : 1; }
  void OnAgreed(absl::Span<const double> sums, int /*members*/) override { due_ = due_ || sums[0] > 0; }

 private:
  std::map<std::string, Handler> handlers_;
  // Topics and texts that were not exchanged yet.
  std::vector<std::pair<std::string, std::string>> news_;
  bool due_ = false;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_NEWS_BUS_H_
