// What the jobs' own models expect of so many replicas. Jobs say more seldom what their models are than Prometheus asks, and to
// search the best batch size takes longer than all else in a scrape: what is known of the same model is not computed again.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_WEB_PREDICTION_CACHE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_WEB_PREDICTION_CACHE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/hints.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

// Of this many replicas on one node, at the batch size that is best then.
struct Prediction {
  int replicas = 0;
  double throughput = 0;  // samples per second
  double goodput = 0;     // samples of worth per second
};
using Predictions = std::vector<Prediction>;

class PredictionCache {
 public:
  // For 1, 2, 4, 8 and 16 replicas, without those that cannot be fed; empty if the hints give no model. `uid`: the job's.
  // What was not asked for during ten minutes of `now` is forgotten.
  std::shared_ptr<const Predictions> Of(const std::string& uid, const v1::Hints& hints, absl::Time now);

  size_t size() const;

 private:
  struct Known {
    std::string hints;  // serialized
    std::shared_ptr<const Predictions> predictions;
    absl::Time used;
  };

  void Purge(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  absl::Time purged_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_WEB_PREDICTION_CACHE_H_
