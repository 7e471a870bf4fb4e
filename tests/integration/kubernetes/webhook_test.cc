// The API server asks the real supervisor about jobs: the one that leads, and one that stands by.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/openssl.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/kubernetes/kubernetes_test.h"
#include "tests/integration/kubernetes/standby.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {
namespace {

using kube::Json;
using ::testing::HasSubstr;

const kube::ResourceType kHooks = {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
                                   "ValidatingWebhookConfiguration", false};

// A certificate for "localhost", in files.
class Certificate {
 public:
  Certificate() {
    char folder[] = "/tmp/adaptdl-webhook-XXXXXX";
    folder_ = mkdtemp(folder);
    const auto ca_key = certificates::MakeKey().value();
    const auto key = certificates::MakeKey().value();
    certificates::Contents contents = {.common_name = "authority",
                                       .dns_name = "",
                                       .uri = "",
                                       .not_before = absl::Now() - absl::Hours(1),
                                       .not_after = absl::Now() + absl::Hours(1),
                                       .kind = certificates::Kind::kAuthority};
    const auto ca = certificates::MakeCertificate(contents, ca_key.get(), nullptr, nullptr).value();
    contents.kind = certificates::Kind::kService;
    contents.common_name = contents.dns_name = "localhost";
    contents.uri = "spiffe://adaptdl/webhook";
    const auto own = certificates::MakeCertificate(contents, key.get(), ca.get(), ca_key.get()).value();
    ca_pem_ = certificates::ToPem(ca.get());
    std::ofstream(certificate()) << certificates::ToPem(own.get());
    std::ofstream(key_file()) << certificates::ToPem(key.get());
  }
  ~Certificate() { std::filesystem::remove_all(folder_); }

  const std::string& ca_pem() const { return ca_pem_; }
  std::string certificate() const { return folder_ + "/cert.pem"; }
  std::string key_file() const { return folder_ + "/key.pem"; }

 private:
  std::string folder_;
  std::string ca_pem_;
};

class KubernetesWebhookTest : public KubernetesTest {
 protected:
  void SetUp() override {
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  std::vector<std::string> Flags() const {
    return {"--webhook-listen", "127.0.0.1:0",           "--webhook-cert",     certificate_.certificate(),
            "--webhook-key",    certificate_.key_file(), "--webhook-operator", "anybody"};
  }

  // The API server asks the supervisor that says its address in this file.
  void AskWhoSays(const std::string& file) {
    const auto address = ReadWholeFile(file);
    ASSERT_TRUE(address.ok()) << address.status();
    const std::string port = address->substr(address->rfind(':') + 1);
    Json hook = {{"name", "jobs.adaptdl.petuum.com"},
                 {"clientConfig",
                  {{"url", absl::StrCat("https://localhost:", port, "/validate")},
                   {"caBundle", absl::Base64Escape(certificate_.ca_pem())}}},
                 {"failurePolicy", "Fail"},
                 {"sideEffects", "None"},
                 {"admissionReviewVersions", {"v1"}},
                 {"rules",
                  {{{"apiGroups", {kubejobs::kGroup}},
                    {"apiVersions", {"v1"}},
                    {"operations", {"CREATE", "UPDATE"}},
                    {"resources", {"adaptdljobs"}}}}}};
    const auto applied = client_.Apply(kube::ObjectOf(kHooks, {"", "adaptdl"}),
                                       {{"apiVersion", "admissionregistration.k8s.io/v1"},
                                        {"kind", "ValidatingWebhookConfiguration"},
                                        {"metadata", {{"name", "adaptdl"}}},
                                        {"webhooks", {hook}}},
                                       {.field_manager = "test", .force = true});
    ASSERT_TRUE(applied.ok()) << applied.status();
  }

  static Json JobOf(const std::string& name, const Json& changes = Json::object()) {
    Json job = {{"apiVersion", kubejobs::kApiVersion},
                {"kind", kubejobs::kJobKind},
                {"metadata", {{"name", name}, {"namespace", "default"}}},
                {"spec",
                 {{"maxReplicas", 4},
                  {"template", {{"spec", {{"containers", {{{"name", "main"}, {"image", "i"}}}}}}}}}}};
    job["spec"].merge_patch(changes);
    return job;
  }
  absl::Status Create(const Json& job) {
    return client_.Create(kube::Collection(AdaptDLJobs(), "default"), job, by_).status();
  }
  absl::Status Patch(const std::string& name, const Json& patch) {
    return client_.MergePatch(kube::ObjectOf(AdaptDLJobs(), {"default", name}), patch, by_).status();
  }

  Certificate certificate_;
  TestCluster cluster_{
      {.workers = 0, .allocator = false, .kubernetes = api_.url(), .supervisor_flags = Flags()}};
};

TEST_F(KubernetesWebhookTest, WhatIsWrongWithAJobIsSaidWhenItComes) {
  AskWhoSays(cluster_.folder() + "/supervisor.address.webhook");
  EXPECT_THAT(Create(JobOf("a", {{"minReplicas", 9}})).ToString(),
              HasSubstr("spec.minReplicas is 9, more than spec.maxReplicas, 4"));
  Json nameless = JobOf("a");
  nameless["spec"]["template"]["spec"]["containers"] = {{{"image", "i"}}};
  EXPECT_THAT(Create(nameless).ToString(), HasSubstr("containers[0].name: Required value"));
  ASSERT_TRUE(Create(JobOf("a")).ok());
  EXPECT_THAT(Patch("a", {{"spec", {{"preemptible", false}}}}).ToString(), HasSubstr("preemptible"));
  EXPECT_TRUE(Patch("a", {{"spec", {{"suspend", true}}}}).ok());
}

TEST_F(KubernetesWebhookTest, OneThatStandsByAnswersToo) {
  Process standby = StartStandby(&cluster_, Flags());
  const std::string file = StandbyAddressFile(cluster_);
  while (!std::filesystem::exists(file + ".webhook"))
    ASSERT_EQ(standby.Wait(absl::Milliseconds(20)), -1) << "it ended";
  AskWhoSays(file + ".webhook");
  EXPECT_THAT(Create(JobOf("a", {{"minReplicas", 9}})).ToString(), HasSubstr("spec.minReplicas is 9"));
  EXPECT_TRUE(Create(JobOf("a")).ok());
  EXPECT_FALSE(std::filesystem::exists(file)) << "it leads";
}

TEST_F(KubernetesWebhookTest, WithoutAnySupervisorJobsStillEnd) {
  AskWhoSays(cluster_.folder() + "/supervisor.address.webhook");
  ASSERT_TRUE(Create(JobOf("a")).ok());
  cluster_.supervisor().Kill();
  EXPECT_THAT(Create(JobOf("b")).ToString(), HasSubstr("failed calling webhook"));
  const kube::Target job = kube::ObjectOf(AdaptDLJobs(), {"default", "a"});
  EXPECT_TRUE(client_.MergePatch(job.Sub("status"), {{"status", {{"message", "by hand"}}}}, by_).ok());
  EXPECT_TRUE(client_.Delete(job, {}).ok());
}

}  // namespace
}  // namespace adaptdl::integration
