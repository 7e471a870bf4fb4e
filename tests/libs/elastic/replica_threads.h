// Replicas of one job as threads of the test: an in-process group, fake control planes, a real checkpoint
// folder.
//
//   JobRun run = RunReplicas(2, {.checkpoint_path = folder}, [](Replica& replica) { ... replica.job ... });
//
// A replica that the library would end (a stop, a lost peer) leaves its body with that exit code instead.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_REPLICA_THREADS_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_REPLICA_THREADS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/job.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/elastic/fake_control_plane.h"
#include "libs/elastic/job_core.h"

namespace adaptdl::elastic {

struct RunOptions {
  std::string checkpoint_path;
  int64_t group = 1;
  absl::Duration checkpoint_period = absl::Hours(1);
  std::function<absl::Status(absl::string_view)> before_checkpoint_step = nullptr;
  int64_t checkpoint_period_steps = 0;
  int checkpoint_keep = 2;
  absl::Duration write_timeout = absl::InfiniteDuration();
};

struct Replica {
  Job& job;
  FakeControlPlane& control;
};

// What the library ends a replica with, in place of ending the process.
struct ReplicaExit {
  int code;
};

// Exit codes by rank; 0: the body returned.
inline std::vector<int> RunReplicas(int size, const RunOptions& options,
                                    const std::function<void(Replica&)>& body) {
  auto communicators = comm::CreateInProcessGroup(size, absl::Seconds(30));
  std::vector<int> codes(size, 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      JobDependencies dependencies;
      dependencies.environment.checkpoint_path = options.checkpoint_path;
      dependencies.environment.checkpoint_period = options.checkpoint_period;
      dependencies.environment.checkpoint_period_steps = options.checkpoint_period_steps;
      dependencies.environment.checkpoint_keep = options.checkpoint_keep;
      dependencies.write_timeout = options.write_timeout;
      dependencies.membership = {options.group, rank, size, 1, ""};
      auto control = std::make_unique<FakeControlPlane>(dependencies.membership);
      FakeControlPlane* raw_control = control.get();
      dependencies.control = std::move(control);
      dependencies.communicator = std::move(communicators[rank]);
      dependencies.exit = [](int code) { throw ReplicaExit{code}; };
      // Each reading is a millisecond after the one before.
      dependencies.seconds = [ticks = std::make_shared<std::atomic<int64_t>>(0)] {
        return static_cast<double>(++*ticks) * 1e-3;
      };
      dependencies.before_checkpoint_step = options.before_checkpoint_step;
      auto core = JobCore::Create(std::move(dependencies));
      ASSERT_TRUE(core.ok()) << core.status();
      try {
        Job job(*std::move(core));
        Replica replica{job, *raw_control};
        body(replica);
      } catch (const ReplicaExit& exit) {
        codes[rank] = exit.code;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return codes;
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_REPLICA_THREADS_H_
