#include "services/autoscaler/providers/process/process_provider.h"

#include <signal.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "libs/base/manual_clock.h"
#include "tests/libs/base/process/process_fixture.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ProcessProviderTest : public ProcessTest {
 protected:
  ProcessProviderTest() {
    options_.pool = "local";
    options_.state_dir = folder_ + "/state";
    options_.supervisor = "127.0.0.1:7100";
    options_.storage_dir = folder_ + "/storage";
    // Writes what it was given beside itself, ends on SIGTERM.
    options_.worker_binary = Script("worker", "echo \"$@\"; env; echo began; exec sleep 1000\n");
    options_.environment = {"PATH=/usr/bin:/bin", "COLOUR=red", "ADAPTDL_SERVER_ORPHAN_TIMEOUT=5s"};
    options_.stop_timeout = absl::Seconds(30);
  }

  ~ProcessProviderTest() override {
    for (const std::string id : {"local-0", "local-1"}) {
      const auto worker = Worker(id);
      if (worker.ok()) EndLater(*worker);
    }
  }

  // As after a restart of the autoscaler.
  void Open() {
    provider_.reset();
    auto provider = ProcessProvider::Create(options_, &clock_);
    ASSERT_TRUE(provider.ok()) << provider.status();
    provider_ = *std::move(provider);
  }

  std::string File(const std::string& id, const std::string& file) const {
    return absl::StrCat(options_.state_dir, "/nodes/", id, "/", file);
  }
  absl::StatusOr<ProcessIdentity> Worker(const std::string& id) const {
    return ParseIdentity(Content(File(id, "pid")));
  }

  // "id alive", ...
  std::vector<std::string> Nodes() {
    std::vector<std::string> nodes;
    const auto listed = provider_->ListNodes();
    EXPECT_TRUE(listed.ok()) << listed.status();
    for (const ProvidedNode& node : *listed) {
      const char* state = node.state == ProvidedState::kAlive      ? " alive"
                          : node.state == ProvidedState::kStopping ? " stopping"
                                                                   : " dead";
      nodes.push_back(node.node_id + state);
    }
    return nodes;
  }
  bool EventuallyNodes(const std::vector<std::string>& nodes) {
    return Eventually([&] { return Nodes() == nodes; });
  }
  bool Began(const std::string& id) {
    return Eventually([&] { return Content(File(id, "worker.log")).find("began") != std::string::npos; });
  }
  void Kill(const std::string& id) { ASSERT_TRUE(SignalProcess(Worker(id).value(), SIGKILL).ok()); }

  using NodeList = std::vector<std::string>;
  ManualClock clock_;
  ProcessProviderOptions options_;
  std::unique_ptr<ProcessProvider> provider_;
};

TEST_F(ProcessProviderTest, StartsAWorkerWithItsFlags) {
  options_.worker_cpus = 3;
  options_.worker_memory_bytes = 1 << 30;
  Open();
  EXPECT_EQ(Nodes(), NodeList{});
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  EXPECT_EQ(Nodes(), NodeList{"local-0 alive"});
  ASSERT_TRUE(Began("local-0"));
  const std::string log = Content(File("local-0", "worker.log"));
  EXPECT_THAT(log,
              AllOf(HasSubstr("--supervisor=127.0.0.1:7100"), HasSubstr("--node-id=local-0"),
                    HasSubstr("--state-dir=" + File("local-0", "worker")),
                    HasSubstr("--storage-dir=" + options_.storage_dir),
                    HasSubstr("--label=adaptdl.petuum.com/pool=local"), HasSubstr("--listen=127.0.0.1:0")));
  EXPECT_THAT(log, AllOf(HasSubstr("--cpus=3"), HasSubstr("--memory=1073741824"), HasSubstr("--gpus=0"),
                         HasSubstr("--address-file=" + File("local-0", "address"))));
  EXPECT_THAT(log, AllOf(HasSubstr("COLOUR=red"), HasSubstr("ADAPTDL_SERVER_ORPHAN_TIMEOUT=5s")));
}

TEST_F(ProcessProviderTest, GivesNewNodesTheSmallestIdsThatAreFree) {
  Open();
  EXPECT_THAT(provider_->CreateNodes(1, {"local-0"}).node_ids, ElementsAre("local-1"));
  EXPECT_THAT(provider_->CreateNodes(1, {}).node_ids, ElementsAre("local-0"));
  EXPECT_EQ(Nodes(), (NodeList{"local-0 alive", "local-1 alive"}));
}

TEST_F(ProcessProviderTest, GivesWorkersTheirOwnCredentialsOnly) {
  options_.worker_tls = {.ca = "/tls/ca.pem", .certificate = "/tls/w.pem", .key = "/tls/w.key"};
  options_.tls_server_name = "supervisor.adaptdl";
  for (const char* variable :
       {"ADAPTDL_SERVER_TLS_KEY=/tls/autoscaler.key", "ADAPTDL_SERVER_TOKEN_FILE=/tls/tokens.json"}) {
    options_.environment.push_back(variable);
  }
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  ASSERT_TRUE(Began("local-0"));
  const std::string log = Content(File("local-0", "worker.log"));
  EXPECT_THAT(log, AllOf(HasSubstr("--tls-ca=/tls/ca.pem"), HasSubstr("--tls-cert=/tls/w.pem"),
                         HasSubstr("--tls-key=/tls/w.key"), HasSubstr("--tls-server-name=supervisor.adaptdl"),
                         Not(HasSubstr("--insecure"))));
  EXPECT_THAT(log, AllOf(Not(HasSubstr("autoscaler.key")), Not(HasSubstr("tokens.json"))));
}

TEST_F(ProcessProviderTest, StartingTwiceIsStartingOnce) {
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  const ProcessIdentity first = Worker("local-0").value();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  EXPECT_EQ(Worker("local-0").value(), first);
}

TEST_F(ProcessProviderTest, FindsItsWorkersAfterItsOwnRestart) {
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  ASSERT_TRUE(provider_->RestartNode("local-1").ok());
  const ProcessIdentity first = Worker("local-0").value();
  Open();
  EXPECT_EQ(Nodes(), (NodeList{"local-0 alive", "local-1 alive"}));
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  EXPECT_EQ(Worker("local-0").value(), first);
}

TEST_F(ProcessProviderTest, NoticesADeadWorkerAndStartsItAgainWithItsState) {
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  ASSERT_TRUE(Began("local-0"));
  const ProcessIdentity first = Worker("local-0").value();
  std::ofstream(File("local-0", "worker/replicas")) << "kept";
  Kill("local-0");
  ASSERT_TRUE(EventuallyNodes({"local-0 dead"}));
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  EXPECT_EQ(Nodes(), NodeList{"local-0 alive"});
  EXPECT_NE(Worker("local-0").value(), first);
  EXPECT_EQ(Content(File("local-0", "worker/replicas")), "kept");
}

TEST_F(ProcessProviderTest, ARecycledPidIsNotTakenForTheWorker) {
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  Kill("local-0");
  ASSERT_TRUE(EventuallyNodes({"local-0 dead"}));
  // Our own pid, with the start time of the one that had it before.
  ASSERT_TRUE(WriteFileAtomically(File("local-0", "pid"), FormatIdentity({getpid(), 1})).ok());
  EXPECT_EQ(Nodes(), NodeList{"local-0 dead"});
  ASSERT_TRUE(provider_->TerminateNode("local-0").ok());  // and we were not signalled
  EXPECT_EQ(Nodes(), NodeList{});
}

TEST_F(ProcessProviderTest, ATornPidFileIsADeadWorker) {
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  EndLater(Worker("local-0").value());
  ASSERT_TRUE(WriteFileAtomically(File("local-0", "pid"), "12").ok());
  EXPECT_EQ(Nodes(), NodeList{"local-0 dead"});
}

TEST_F(ProcessProviderTest, StopsAWorkerAndForgetsIt) {
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  ASSERT_TRUE(Began("local-0"));
  ASSERT_TRUE(provider_->TerminateNode("local-0").ok());
  ASSERT_TRUE(provider_->TerminateNode("local-0").ok());
  EXPECT_TRUE(EventuallyNodes({}));
  EXPECT_FALSE(Exists(File("local-0", "pid")));
  EXPECT_TRUE(provider_->TerminateNode("local-0").ok());
  EXPECT_TRUE(provider_->TerminateNode("never-there").ok());
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());  // the id is free again
  EXPECT_EQ(Nodes(), NodeList{"local-0 alive"});
}

TEST_F(ProcessProviderTest, AStopOutlivesTheProvider) {
  options_.worker_binary = Script("stubborn", "trap '' TERM; echo began; while :; do sleep 1000; done\n");
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  ASSERT_TRUE(Began("local-0"));
  ASSERT_TRUE(provider_->TerminateNode("local-0").ok());
  EXPECT_EQ(Nodes(), NodeList{"local-0 stopping"});
  EXPECT_TRUE(absl::IsFailedPrecondition(provider_->RestartNode("local-0")));
  Open();
  EXPECT_EQ(Nodes(), NodeList{"local-0 stopping"});
  Kill("local-0");
  EXPECT_TRUE(EventuallyNodes({}));  // not "dead": nobody wants it back
}

TEST_F(ProcessProviderTest, KillsAWorkerThatDoesNotStop) {
  options_.worker_binary = Script("stubborn", "trap '' TERM; echo began; while :; do sleep 1000; done\n");
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  ASSERT_TRUE(Began("local-0"));
  ASSERT_TRUE(provider_->TerminateNode("local-0").ok());
  clock_.Advance(absl::Seconds(29));
  EXPECT_EQ(Nodes(), NodeList{"local-0 stopping"});
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(EventuallyNodes({}));
}

TEST_F(ProcessProviderTest, AWorkerThatDiesAtOnceIsSeen) {
  options_.worker_binary = Script("broken", "echo broken; exit 1\n");
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  EXPECT_TRUE(EventuallyNodes({"local-0 dead"}));
  EXPECT_THAT(Content(File("local-0", "worker.log")), HasSubstr("broken"));
}

TEST_F(ProcessProviderTest, TwoProvidersDoNotShareAFolder) {
  Open();
  const auto second = ProcessProvider::Create(options_, &clock_);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--state-dir"));
}

TEST_F(ProcessProviderTest, WorkersDoNotHoldTheLock) {
  Open();
  ASSERT_TRUE(provider_->RestartNode("local-0").ok());
  ASSERT_TRUE(Began("local-0"));
  Open();
}

TEST_F(ProcessProviderTest, AMissingProgramIsAnErrorAtTheStart) {
  options_.worker_binary = folder_ + "/missing";
  const auto provider = ProcessProvider::Create(options_, &clock_);
  EXPECT_TRUE(absl::IsNotFound(provider.status()));
  EXPECT_THAT(std::string(provider.status().message()),
              AllOf(HasSubstr("--worker-binary"), HasSubstr("missing")));
}

TEST_F(ProcessProviderTest, AProgramThatVanishedLaterIsAnErrorAndADeadNode) {
  Open();
  std::filesystem::remove(options_.worker_binary);
  EXPECT_TRUE(absl::IsNotFound(provider_->RestartNode("local-0")));
  EXPECT_EQ(Nodes(), NodeList{"local-0 dead"});
}

TEST_F(ProcessProviderTest, AStateFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ + "/file") << "in the way";
  options_.state_dir = folder_ + "/file/state";
  EXPECT_THAT(ProcessProvider::Create(options_, &clock_).status().ToString(), HasSubstr("file/state"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
