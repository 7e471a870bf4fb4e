#include "libs/elastic/job/init.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/job/replica_device.h"
#include "tests/libs/elastic/test_host.h"

namespace adaptdl::elastic {
namespace {

// A host with signals of its own: an interpreter's, for instance.
class SignalHost final : public Host {
 public:
  std::function<void(const std::string&)> on_signal;

  double Seconds() override { return 0; }
  double WallSeconds() override { return 1e9; }
  std::unique_ptr<SignalWatch> WatchSignals(std::function<void(const std::string&)> handler) override {
    on_signal = std::move(handler);
    return std::make_unique<SignalWatch>();
  }

 private:
  void End(int code) override { throw HostExit{code}; }
};

// Here there is no GPU.
TEST(InitTest, ErrorsEndTheProcessAsTheHostDoes) {
  EXPECT_EQ(ExitCodeOf([] { InitOn(std::make_shared<TestHost>(), {.backend = "mpi"}); }), 1);
  if (GpusOfProcess().count().value_or(0) > 0) return;
  EXPECT_EQ(ExitCodeOf([] { InitOn(std::make_shared<TestHost>(), {.backend = "nccl"}); }), 1);
}

TEST(InitTest, AJobStopsAsTheHostDoes) {
  const auto job = InitOn(std::make_shared<TestHost>(), {});
  EXPECT_EQ(job->num_replicas(), 1);
  job->RequestStop();
  EXPECT_EQ(ExitCodeOf([&] { job->Synchronize(); }), kExitStopped);
}

TEST(InitTest, ASignalStopsTheJobAtItsNextStep) {
  const auto host = std::make_shared<SignalHost>();
  const auto job = InitOn(host, {});
  job->core();
  host->on_signal("SIGTERM");
  EXPECT_EQ(ExitCodeOf([&] { job->Synchronize(); }), kExitStopped);
}

TEST(InitTest, BeforeTheReplicasHaveMetASignalEndsTheProcess) {
  const auto host = std::make_shared<SignalHost>();
  const auto job = InitOn(host, {});
  EXPECT_EQ(ExitCodeOf([&] { host->on_signal("SIGTERM"); }), kExitStopped);
}

}  // namespace
}  // namespace adaptdl::elastic
