// A supervisor that is killed at any instant, and whose disk fails now and then, loses nothing that it has
// acknowledged and invents nothing: users' operations, and what a worker reports of replicas.
//
// ADAPTDL_STORE_KILLS and ADAPTDL_STORE_SEED set how often it is killed and what is drawn;
// scripts/test-chaos.sh runs it at full length.

#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/rpc/channel.h"
#include "tests/integration/process.h"
#include "tests/integration/store_crash/tenant.h"
#include "tests/integration/store_crash/workload.h"

namespace adaptdl::integration {
namespace {

constexpr int kTenants = 3;
constexpr absl::Duration kStartTimeout = absl::Minutes(1);

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

class StoreCrashTest : public testing::Test {
 protected:
  StoreCrashTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-store-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~StoreCrashTest() override {
    supervisor_.Kill();
    if (HasFailure()) {
      std::cerr << "state and logs of the failed test: " << folder_ << "\n";
      return;
    }
    std::filesystem::remove_all(folder_);
  }

  // False: it ended at its start.
  bool Start(int failures_per_mille) {
    const std::string address_file = folder_ + "/address";
    std::filesystem::remove(address_file);
    std::vector<std::string> command;
    if (failures_per_mille > 0) {
      command = {"/usr/bin/env", absl::StrCat("LD_PRELOAD=", ADAPTDL_BINARY_DIR, "/tests/libfailing_disk.so"),
                 absl::StrCat("FAILING_DISK_FOLDER=", folder_, "/state"),
                 absl::StrCat("FAILING_DISK_PER_MILLE=", failures_per_mille)};
    }
    for (const std::string& argument :
         {absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/adaptdl-supervisor"), std::string("--listen"),
          std::string("127.0.0.1:0"), std::string("--metrics-listen"), std::string("127.0.0.1:0"),
          std::string("--state-dir"), folder_ + "/state", std::string("--address-file"), address_file,
          // Everything is asked for again after each start.
          std::string("--client-calls-per-second=0"), std::string("--insecure")}) {
      command.push_back(argument);
    }
    supervisor_ = Process::Start(command, folder_ + "/supervisor.log");
    const absl::Time deadline = absl::Now() + kStartTimeout;
    while (absl::Now() < deadline) {
      if (const auto address = ReadWholeFile(address_file); address.ok() && !address->empty()) {
        channel_ = rpc::CreateChannel(std::string(absl::StripAsciiWhitespace(*address)), rpc::Plaintext());
        return true;
      }
      if (supervisor_.Wait(absl::Milliseconds(2)) != -1) return false;
    }
    ADD_FAILURE() << "the supervisor did not start";
    return false;
  }

  absl::Status CheckAll(const std::vector<std::unique_ptr<Participant>>& participants) {
    // The port may be that of an earlier life, which gRPC knows as one where nobody answers.
    (void)channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
    for (const auto& participant : participants) {
      participant->Connect(channel_);
      if (const absl::Status status = participant->Check(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::string folder_;
  Process supervisor_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(StoreCrashTest, NothingIsLostAndNothingInvented) {
  const int kills = FromEnvironment("ADAPTDL_STORE_KILLS", 20);
  const int seed = FromEnvironment("ADAPTDL_STORE_SEED", 1);
  RecordProperty("seed", seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::unique_ptr<Participant>> participants;
  for (int i = 0; i < kTenants; ++i) {
    participants.push_back(std::make_unique<Tenant>(absl::StrCat("tenant-", i), random()));
  }
  participants.push_back(std::make_unique<Workload>("workload", random()));

  int failing_lives = 0;
  for (int life = 0; life <= kills; ++life) {
    // A disk that fails while it opens the store ends the supervisor: then with one that does not.
    const int rate = life < kills && random() % 3 == 0 ? 1 + static_cast<int>(random() % 100) : 0;
    if (rate > 0) ++failing_lives;
    if (!Start(rate)) {
      ASSERT_GT(rate, 0) << "the supervisor does not start on the store that it left";
      ASSERT_TRUE(Start(0)) << "the supervisor does not start on the store that it left";
    }
    absl::Status status = CheckAll(participants);
    if (rate > 0 && absl::IsUnavailable(status)) {
      // The disk has failed before anybody looked.
      supervisor_.Kill();
      ASSERT_TRUE(Start(0)) << "the supervisor does not start on the store that it left";
      status = CheckAll(participants);
    }
    ASSERT_TRUE(status.ok()) << "life " << life << ": " << status;
    if (life == kills) break;
    std::atomic<bool> dead = false;
    std::vector<std::thread> threads;
    std::vector<absl::Status> failures(participants.size());
    for (size_t i = 0; i < participants.size(); ++i) {
      threads.emplace_back([&, i] {
        while (!dead && failures[i].ok()) {
          const absl::Status status = participants[i]->Operate();
          if (!absl::IsUnavailable(status)) failures[i] = status;
        }
      });
    }
    poll(nullptr, 0, static_cast<int>(random() % 300));  // Until a random instant.
    supervisor_.Kill();
    dead = true;
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& failure : failures)
      ASSERT_TRUE(failure.ok()) << "life " << life << ": " << failure;
  }
  int64_t acknowledged = 0;
  for (const auto& participant : participants) {
    EXPECT_GT(participant->acknowledged(), 0);
    acknowledged += participant->acknowledged();
  }
  std::cout << kills << " kills, " << failing_lives << " of them with a failing disk, " << acknowledged
            << " acknowledged operations" << std::endl;
}

}  // namespace
}  // namespace adaptdl::integration
