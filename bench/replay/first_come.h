// First come, first served: each job gets the replicas that it asks for, for good, and nobody overtakes.
//
// Not thread-safe.

#ifndef ADAPTDL_BENCH_REPLAY_FIRST_COME_H_
#define ADAPTDL_BENCH_REPLAY_FIRST_COME_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace adaptdl::replay {

class FirstCome {
 public:
  struct Start {
    std::string job;
    // Node of each replica, by number; neighbours stand together.
    std::vector<int> nodes;
  };

  FirstCome(int nodes, int slots_per_node) : free_(nodes, slots_per_node) {}

  void Arrive(const std::string& job, int replicas) { waiting_.push_back({job, replicas}); }
  // The job has ended. No-op for one that does not run.
  void End(const std::string& job);
  // The jobs that can start now, in order of their arrival: each from the node with most room on, as in the simulator.
  std::vector<Start> TakeStarts();

 private:
  struct Waiting {
    std::string job;
    int replicas = 0;
  };

  std::vector<int> free_;
  std::deque<Waiting> waiting_;
  std::map<std::string, std::vector<int>> running_;
};

}  // namespace adaptdl::replay

#endif  // ADAPTDL_BENCH_REPLAY_FIRST_COME_H_
