#include "libs/kube/access/access.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/access/in_cluster.h"
#include "libs/kube/access/kubeconfig.h"

namespace adaptdl::kube {
namespace {

using ::testing::HasSubstr;

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() {
    char folder[] = "/tmp/adaptdl-access-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~AccessTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content, int mode = 0600) {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << content;
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
    return path;
  }

  // A kubeconfig with one context, whose user and cluster have these fields.
  std::string Config(const std::string& user, const std::string& cluster = "server: https://h:6443/") {
    return Write("config",
                 absl::StrCat("current-context: c\n"
                              "contexts: [{name: c, context: {cluster: k, user: u, namespace: n}}]\n"
                              "clusters: [{name: k, cluster: {",
                              cluster, "}}]\nusers: [{name: u, user: {", user, "}}]\n"));
  }
  absl::StatusOr<Access> Read(const std::string& file) { return AccessByKubeconfig({.files = {file}}); }
  absl::StatusOr<Credentials> Login(const std::string& user) {
    const absl::StatusOr<Access> access = Read(Config(user));
    if (!access.ok()) return access.status();
    return access->credentials->Get({});
  }

  std::string folder_;
};

TEST_F(AccessTest, InClusterIsTheServiceAccount) {
  Write("token", "first\n");
  Write("ca.crt", "the authority");
  Write("namespace", "training\n");
  const auto access = AccessInCluster({.host = "10.0.0.1", .port = "443", .folder = folder_});
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->server, "https://10.0.0.1:443");
  EXPECT_EQ(*access->ca.Read(), "the authority");
  EXPECT_EQ(access->default_namespace, "training");
  EXPECT_EQ(access->credentials->Get({})->bearer_token, "first");
  Write("token", "second");
  EXPECT_EQ(access->credentials->Get({})->bearer_token, "second");
  std::filesystem::remove(folder_ + "/token");
  EXPECT_EQ(access->credentials->Get({}).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessTest, InClusterKnowsIpv6) {
  Write("token", "t");
  Write("ca.crt", "c");
  EXPECT_EQ(AccessInCluster({.host = "fd00::1", .folder = folder_})->server, "https://[fd00::1]:443");
}

TEST_F(AccessTest, APodWithoutServiceAccountIsToldSo) {
  const auto access = AccessInCluster({.host = "10.0.0.1", .folder = folder_});
  EXPECT_EQ(access.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(access.status().message(), HasSubstr("automountServiceAccountToken"));
}

TEST_F(AccessTest, KubeconfigSaysWhereTheServerIs) {
  const auto access =
      Read(Config("token: t", absl::StrCat("server: https://h:6443/p/, tls-server-name: real, "
                                           "proxy-url: http://p:1, certificate-authority-data: ",
                                           absl::Base64Escape("the authority"))));
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->server, "https://h:6443/p");
  EXPECT_EQ(access->tls_server_name, "real");
  EXPECT_EQ(access->proxy_url, "http://p:1");
  EXPECT_EQ(*access->ca.Read(), "the authority");
  EXPECT_FALSE(access->insecure);
  EXPECT_EQ(access->default_namespace, "n");
}

TEST_F(AccessTest, PathsAreRelativeToTheKubeconfig) {
  Write("pki/ca", "the authority");
  Write("pki/token", "from a file");
  const auto access = Read(
      Config("token: beside it, tokenFile: pki/token", "server: https://h, certificate-authority: pki/ca"));
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(*access->ca.Read(), "the authority");
  EXPECT_EQ(access->credentials->Get({})->bearer_token, "from a file");
}

TEST_F(AccessTest, ClientCertificatesAreReadAgain) {
  const std::string certificate = Write("crt", "one");
  const auto access = Read(Config(absl::StrCat("client-certificate: ", certificate,
                                               ", client-key-data: ", absl::Base64Escape("the key"))));
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->credentials->Get({})->certificate_pem, "one");
  EXPECT_EQ(access->credentials->Get({})->key_pem, "the key");
  Write("crt", "two");
  EXPECT_EQ(access->credentials->Get({})->certificate_pem, "two");
}

TEST_F(AccessTest, KnowsUsersWithPasswordsAndWithNothing) {
  EXPECT_EQ(Login("username: a, password: b")->password, "b");
  EXPECT_EQ(*Login(""), Credentials());
}

TEST_F(AccessTest, OfSeveralFilesTheFirstEntryCounts) {
  const std::string first = Write("first", "users: [{name: u, user: {token: first}}]");
  const std::string second = Config("token: second");
  const auto access = AccessByKubeconfig({.files = {folder_ + "/nonexistent", first, second}});
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->credentials->Get({})->bearer_token, "first");
}

TEST_F(AccessTest, SaysWhatIsMissing) {
  EXPECT_EQ(Read(folder_ + "/nonexistent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Read(Write("e", "a: b")).status().message(), HasSubstr("current-context"));
  EXPECT_THAT(Read(Write("e", "current-context: x")).status().message(), HasSubstr("no context \"x\""));
  EXPECT_THAT(AccessByKubeconfig({.files = {Config("")}, .context = "y"}).status().message(),
              HasSubstr("\"y\""));
  EXPECT_EQ(Read(Config("", "")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(Config("client-key-data: '!'")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(Write("e", "[")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(Write("e", "text")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read(Config("auth-provider: {name: gcp}")).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Read(Config("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
                          "interactiveMode: Always}"))
                  .status()
                  .message(),
              HasSubstr("ask a person"));
  EXPECT_THAT(Read(Config("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"))
                  .status()
                  .message(),
              HasSubstr("apiVersion"));
  EXPECT_EQ(Read(Config("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [1]}"))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(AccessTest, RunsTheLoginProgramOfAUser) {
  Write("login",
        "#!/bin/sh\n"
        "token=\"$1 $COLOUR $(echo \"$KUBERNETES_EXEC_INFO\" | grep -o 'https://[^\\\"]*')\"\n"
        "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\","
        "\"status\":{\"token\":\"'\"$token\"'\"}}'\n",
        0700);
  const auto credentials = Login(
      "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [first], "
      "env: [{name: COLOUR, value: red}], provideClusterInfo: true, interactiveMode: IfAvailable}");
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->bearer_token, "first red https://h:6443");
}

// What says where the server is, in the order in which it counts.
class FindAccessTest : public AccessTest {
 protected:
  FindAccessTest() {
    for (const char* name : {"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"})
      unsetenv(name);
    setenv("HOME", folder_.c_str(), 1);
  }
  std::string ServerIn(const std::string& name, const std::string& server) {
    return Write(name,
                 absl::StrCat("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
                              "clusters: [{name: k, cluster: {server: ",
                              server, "}}]\nusers: [{name: u, user: {}}]\n"));
  }
};

TEST_F(FindAccessTest, AFileThatIsNamedCountsMost) {
  const std::string named = ServerIn("named", "https://named");
  setenv("KUBECONFIG", absl::StrCat(folder_, "/missing:", ServerIn("listed", "https://listed")).c_str(), 1);
  setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  EXPECT_EQ(FindAccess({.kubeconfig = named})->server, "https://named");
  EXPECT_EQ(FindAccess()->server, "https://listed");
}

TEST_F(FindAccessTest, APodCountsMoreThanTheHomeFolder) {
  ServerIn(".kube/config", "https://home");
  EXPECT_EQ(FindAccess()->server, "https://home");
  setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  EXPECT_THAT(FindAccess().status().message(), HasSubstr("service account"));
}

TEST_F(FindAccessTest, SaysWhereItHasLooked) {
  EXPECT_THAT(FindAccess().status().message(), HasSubstr(folder_ + "/.kube/config"));
}

}  // namespace
}  // namespace adaptdl::kube
