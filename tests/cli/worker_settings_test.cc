#include "cli/node/worker_settings.h"

#include <string>

#include "gtest/gtest.h"

namespace adaptdl::cli {
namespace {

TEST(WorkerSettingsTest, ChangesItsOwnLinesOnly) {
  const std::string before =
      "# Settings\nADAPTDL_SERVER_LISTEN=127.0.0.1:7103\n\nADAPTDL_SERVER_CPUS=8\nADAPTDL_SERVER_TLS_CERT=x\n"
      "ADAPTDL_SERVER_LISTEN=1.2.3.4:1\n#ADAPTDL_SERVER_NODE_ID=no\n";
  EXPECT_EQ(
      WithSettings(before, {{"ADAPTDL_SERVER_LISTEN", "10.0.0.2:7103"},
                            {"ADAPTDL_SERVER_TLS_CERT", ""},
                            {"ADAPTDL_SERVER_TLS_KEY", ""},
                            {"ADAPTDL_SERVER_NODE_ID", "a"}}),
      "# Settings\nADAPTDL_SERVER_LISTEN=10.0.0.2:7103\n\nADAPTDL_SERVER_CPUS=8\n#ADAPTDL_SERVER_TLS_CERT=x\n"
      "#ADAPTDL_SERVER_LISTEN=1.2.3.4:1\n#ADAPTDL_SERVER_NODE_ID=no\nADAPTDL_SERVER_NODE_ID=a\n");
}

TEST(WorkerSettingsTest, AreTheSameWhenTheyAreWrittenAgain) {
  const Settings settings = {{"A", "1"}, {"B", ""}, {"C", "3"}};
  const std::string once = WithSettings("B=2\n", settings);
  EXPECT_EQ(WithSettings(once, settings), once);
}

TEST(WorkerSettingsTest, TheLastLineCounts) {
  const std::string text = "A=1\n#A=2\n A=3 \nAB=4\n";
  EXPECT_EQ(SettingIn(text, "A"), "3");
  EXPECT_EQ(SettingIn(text, "B"), "");
}

TEST(WorkerSettingsTest, HoldWhatSystemdReadsAsItIs) {
  EXPECT_TRUE(CheckSettings({{"A", "10.0.0.1:7100,[::1]:7100"}}).ok());
  for (const char* value : {"a\nB=2", "a\"", "'a", "a\\", " a", "a\r"}) {
    EXPECT_FALSE(CheckSettings({{"A", value}}).ok()) << value;
  }
}

}  // namespace
}  // namespace adaptdl::cli
