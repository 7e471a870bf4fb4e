// Settings, and what fails before a supervisor is heard. tests/package has the operations, on a real cluster.

#include "adaptdl/client.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::client {
namespace {

using ::testing::HasSubstr;

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    for (const char* name :
         {"SUPERVISOR_ADDRESS", "CA_FILE", "TOKEN", "TOKEN_FILE", "TLS_SERVER_NAME", "INSECURE"}) {
      unsetenv((std::string("ADAPTDL_") + name).c_str());
    }
    setenv("ADAPTDL_HOME", folder_.c_str(), 1);
    std::filesystem::create_directories(folder_);
  }
  ~ClientTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  static std::string Refusal(const Settings& settings) {
    const absl::Status status = Client::Open(settings).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("client_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ClientTest, WhatCannotBeUsedIsSaidWhenItIsOpened) {
  EXPECT_THAT(Refusal({}),
              HasSubstr("nothing tells how to make sure that 127.0.0.1:7100 is the right server"));
  EXPECT_THAT(Refusal({.supervisor = "nowhere", .insecure = true}),
              HasSubstr("supervisor \"nowhere\" is not valid"));
  EXPECT_THAT(Refusal({.insecure = true, .call_timeout = absl::ZeroDuration()}), HasSubstr("call_timeout"));
  EXPECT_THAT(Refusal({.ca_file = "/none", .token = "t"}), HasSubstr("/none"));
  EXPECT_THAT(Refusal({.ca_file = "/none", .token_file = Write("two", "two words")}),
              HasSubstr("a token and nothing else"));
  EXPECT_THAT(Refusal({.ca_file = "/none", .token_file = Write("empty", "\n")}),
              HasSubstr("it must hold a token"));
}

TEST_F(ClientTest, TheEnvironmentAndTheLocalClusterAreFound) {
  Write("cluster.json", R"({"supervisor": "127.0.0.1:1", "caFile": "", "tokenFile": ""})");
  EXPECT_TRUE(Client::Open().ok());
  // What the local cluster does is no rule for others.
  EXPECT_THAT(Refusal({.supervisor = "127.0.0.1:2"}), HasSubstr("127.0.0.1:2"));
  Write("cluster.json", R"({"supervisor": "127.0.0.1:1", "caFile": "/its-ca"})");
  EXPECT_THAT(Refusal({}), HasSubstr("/its-ca"));
  setenv("ADAPTDL_SUPERVISOR_ADDRESS", "127.0.0.1:3,127.0.0.1:4", 1);
  EXPECT_THAT(Refusal({}), HasSubstr("127.0.0.1:3,127.0.0.1:4"));
  setenv("ADAPTDL_INSECURE", "1", 1);
  EXPECT_TRUE(Client::Open().ok());
  // A record that is none is as good as no record.
  unsetenv("ADAPTDL_INSECURE");
  unsetenv("ADAPTDL_SUPERVISOR_ADDRESS");
  Write("cluster.json", R"([1, {"supervisor": 7}])");
  EXPECT_THAT(Refusal({}), HasSubstr("127.0.0.1:7100"));
}

TEST_F(ClientTest, ASupervisorThatIsNotThereIsToldSoon) {
  const auto client = Client::Open({.supervisor = "127.0.0.1:1", .insecure = true});
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status = (*client)->Get("digits").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("supervisor unreachable at 127.0.0.1:1"));
}

TEST_F(ClientTest, WhatIsNoJobIsRefusedHere) {
  const auto client = Client::Open({.supervisor = "127.0.0.1:1", .insecure = true});
  ASSERT_TRUE(client.ok()) << client.status();
  for (const char* name : {"", "/", "a/", "/a", "a/b/c"}) {
    EXPECT_TRUE(absl::IsInvalidArgument((*client)->Get(name).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument((*client)->Delete(name))) << name;
  }
  EXPECT_TRUE(absl::IsInvalidArgument((*client)->Submit({.command = {"true"}, .cpus = -1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument((*client)->SubmitJobFile(std::string(2 << 20, ' ')).status()));
  const absl::Status file = (*client)->SubmitJobFile("kind: Pod\n", "pod.yaml").status();
  EXPECT_THAT(std::string(file.message()), HasSubstr("pod.yaml:1"));
}

}  // namespace
}  // namespace adaptdl::client
