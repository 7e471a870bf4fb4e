// A cluster as simply as can be: all unfinished jobs share its GPUs in equal parts, none beyond a bound of its own.
//
// Times are those of a queue with processor sharing. Cheap enough for a hundred million jobs; what a cluster really does with its
// jobs is simulated by the engine. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_FLEET_SHARED_CLUSTER_H_
#define ADAPTDL_SIMULATOR_FLEET_SHARED_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace adaptdl::simulator {

class SharedCluster {
 public:
  // `gpus`: in reference GPUs; `most_per_job`: that one job makes use of. Both greater than 0.
  SharedCluster(double gpus, double most_per_job) : gpus_(gpus), most_per_job_(most_per_job) {}

  // Lets time pass. REQUIRES: times do not go back.
  void Advance(double now);
  // A job of so many seconds on one reference GPU is there from `now` on.
  void Add(double now, double solo_seconds);
  // Lets time pass until all jobs are done.
  void Drain();

  int unfinished() const { return static_cast<int>(running_.size()); }
  int most_unfinished() const { return most_unfinished_; }
  int64_t done() const { return done_; }
  double gpus() const { return gpus_; }
  // Of the jobs that are done, from submission to completion, in seconds. 0 of none.
  double mean_jct() const { return done_ == 0 ? 0 : sum_jct_ / static_cast<double>(done_); }
  // Work that was given to it, in seconds of one reference GPU.
  double work() const { return work_; }

 private:
  // What each unfinished job gets, in reference GPUs. REQUIRES: there is one.
  double Rate() const;
  // Time at which the next job is done, if no other one comes. REQUIRES: there is one.
  double NextEnd() const { return now_ + (running_.top().first - served_) / Rate(); }
  void EndOne();

  const double gpus_;
  const double most_per_job_;
  double now_ = 0;
  // What a job that was there from the start on would have been served. A job ends when that has grown by its work.
  double served_ = 0;
  // Of each unfinished job: when it ends, by `served_`, and its submission. The next one to end is on top.
  using Job = std::pair<double, double>;
  std::priority_queue<Job, std::vector<Job>, std::greater<>> running_;
  int most_unfinished_ = 0;
  int64_t done_ = 0;
  double sum_jct_ = 0;
  double work_ = 0;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_FLEET_SHARED_CLUSTER_H_
