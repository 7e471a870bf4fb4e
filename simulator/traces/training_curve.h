// How one application trains: progress and gradient statistics, epoch by epoch, at any total batch size.
//
// Read from the files `validation-<batch size>.csv` of a trace: one training run per batch size, one line per
// epoch. Batch sizes in between are interpolated linearly.
//
// Or made from a job's own statistics: then they are the same at every batch size and all the time.
//
// Progress is counted in scale-invariant iterations: those that a run at the smallest batch size would need.
//
// Immutable once loaded; thread-safe.

#ifndef ADAPTDL_SIMULATOR_TRACES_TRAINING_CURVE_H_
#define ADAPTDL_SIMULATOR_TRACES_TRAINING_CURVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/goodput/model.h"

namespace adaptdl::simulator {

class TrainingCurve {
 public:
  // Reads all `validation-*.csv` of a folder. NOT_FOUND: there is none.
  static absl::StatusOr<TrainingCurve> Load(const std::string& folder);

  // The course of a job whose statistics do not change: one epoch of `steps` scale-invariant iterations.
  // REQUIRES: 1 <= init_batch_size <= max_batch_size, steps > 0, the statistics pass goodput::Validate().
  static TrainingCurve Constant(const goodput::GradParams& gradient, int64_t init_batch_size,
                                int64_t max_batch_size, double steps);

  // The same course in so many times less progress, as of a training that was cut down. REQUIRES: times > 0.
  TrainingCurve Shortened(double times) const;

  // Smallest and largest batch size that was run; the smallest is the application's initial batch size.
  int64_t min_batch_size() const { return runs_.front().batch_size; }
  int64_t max_batch_size() const { return runs_.back().batch_size; }

  // Whether the curve tells how a job trains at this batch size: one within the range or, if the statistics
  // do not change, any.
  bool Covers(int64_t batch_size) const {
    return constant_ || (batch_size >= min_batch_size() && batch_size <= max_batch_size());
  }

  // Epochs to train. Epochs count from 0.
  int epochs() const { return static_cast<int>(progress_after_.size()); }

  // During this epoch. REQUIRES: the curve covers the batch size, 0 <= epoch < epochs().
  goodput::GradParams Gradient(int64_t batch_size, int epoch) const;

  // Iterations done at the end of this epoch. REQUIRES: as for Gradient().
  double Iterations(int64_t batch_size, int epoch) const;

  // Progress that ends this epoch: the least of all runs. REQUIRES: 0 <= epoch < epochs().
  double ProgressAfter(int epoch) const { return progress_after_[epoch]; }

 private:
  struct Epoch {
    double progress = 0;
    double iteration = 0;
    double gradient_sqr = 0;
    double gradient_var = 0;
  };
  struct Run {
    int64_t batch_size = 0;
    std::vector<Epoch> epochs;
  };
  // The runs whose batch sizes bracket one; the same twice if it was run itself.
  struct Bracket {
    const Run& low;
    const Run& high;
  };

  static absl::StatusOr<Run> LoadRun(const std::string& path, int64_t batch_size);
  Bracket Find(int64_t batch_size) const;

  std::vector<Run> runs_;  // by batch size
  bool constant_ = false;
  std::vector<double> progress_after_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_TRACES_TRAINING_CURVE_H_
