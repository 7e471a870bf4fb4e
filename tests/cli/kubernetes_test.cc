// What the command makes of jobs for a cluster of Kubernetes, without one.

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/kubernetes/copy_pod.h"
#include "cli/kubernetes/image.h"
#include "cli/kubernetes/submission.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/json/json.h"
#include "tests/cli/program.h"

namespace adaptdl::cli {
namespace {

using kube::At;
using ::testing::HasSubstr;

kube::Json Job() {
  return kube::ParseJson(R"({"metadata": {"name": "digits", "namespace": "team", "uid": "u-1"},
    "spec": {"template": {"spec": {
      "securityContext": {"fsGroup": 7},
      "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "set"}}, {"name": "tmp", "emptyDir": {}}],
      "containers": [{"name": "main", "image": "old", "args": ["a"],
        "env": [{"name": "ADAPTDL_CHECKPOINT_PATH", "value": "/data/here"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data/"}, {"name": "tmp", "mountPath": "/tmp/x"}]},
       {"name": "side", "image": "other"}]}}}})")
      .value();
}

const kube::Json& Main(const kube::Json& job) {
  return At(job, {"spec", "template", "spec", "containers"}).front();
}

TEST(SubmissionTest, ChangesTheFirstContainerAndNothingElse) {
  kube::Json job = Job();
  ASSERT_TRUE(
      Complete({.name_prefix = "run", .image = "new@sha256:1", .arguments = {{"b", "c"}}}, &job).ok());
  EXPECT_EQ(Main(job)["image"], "new@sha256:1");
  EXPECT_EQ(Main(job)["args"], kube::Json({"b", "c"}));
  EXPECT_EQ(job["metadata"]["generateName"], "run-");
  EXPECT_FALSE(job["metadata"].contains("name"));
  EXPECT_EQ(At(job, {"spec", "template", "spec", "containers"})[1],
            (kube::Json{{"name", "side"}, {"image", "other"}}));
  kube::Json same = Job();
  ASSERT_TRUE(Complete({}, &same).ok());
  EXPECT_EQ(same, Job());
}

TEST(SubmissionTest, AClaimOfTheJobReplacesTheVariableThatWasThere) {
  kube::Json job = Job();
  ASSERT_TRUE(Complete({.claim = "mine"}, &job).ok());
  const kube::Json& variables = Main(job)["env"];
  ASSERT_EQ(variables.size(), 2u);
  EXPECT_EQ(variables[0]["value"], "/adaptdl/checkpoint");
  EXPECT_EQ(variables[1]["name"], "ADAPTDL_SHARE_PATH");
}

TEST(SubmissionTest, HostileFilesAreErrors) {
  for (const char* text :
       {"{}", "[]", R"({"metadata": 3})", R"({"metadata": {}, "spec": {"template": []}})",
        R"({"metadata": {}, "spec": {"template": {"spec": {"containers": [1]}}}})",
        R"({"metadata": {}, "spec": {"template": {"spec": {"containers": []}}}})",
        R"({"metadata": {}, "spec": {"template": {"spec": {"containers": [{"env": 1}], "volumes": {}}}}})"}) {
    kube::Json job = kube::ParseJson(text).value();
    EXPECT_TRUE(absl::IsInvalidArgument(Complete({.tensorboard = "t", .claim = "c"}, &job))) << text;
  }
}

TEST(CopyPodTest, SeesTheClaimsOfTheJobAndNothingElse) {
  const JobStorage storage = StorageOf(Job(), "adaptdl-u-1");
  EXPECT_EQ(PathInPod(storage, "checkpoint/a/./b").value(), "/data/here/a/b");
  EXPECT_EQ(PathInPod(storage, "share").value(), "/adaptdl/share");
  EXPECT_EQ(PathInPod(storage, "/data").value(), "/data");
  for (const char* path :
       {"/tmp/x", "/database", "checkpoint/../../etc", "/data/../etc/passwd", "", "other/x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PathInPod(storage, path).status())) << path;
  }
  const kube::Json pod = MakeCopyPod(Job(), storage, "helper", "busybox");
  ASSERT_EQ(At(pod, {"spec", "volumes"}).size(), 2u);
  for (const kube::Json& mount : At(pod, {"spec", "containers"})[0]["volumeMounts"]) {
    EXPECT_EQ(mount["readOnly"], true) << mount;
  }
  EXPECT_EQ(At(pod, {"spec", "securityContext", "fsGroup"}), 7);
  EXPECT_EQ(At(pod, {"metadata", "ownerReferences"})[0]["uid"], "u-1");
}

TEST(CopyPodTest, AJobWithoutStorageHasNothingToCopy) {
  const JobStorage storage = StorageOf(kube::Json::object(), "");
  EXPECT_THAT(PathInPod(storage, "checkpoint/x").status().message(), HasSubstr("it has none"));
}

// Programs in the place of docker and kubectl, which do what the real ones do as far as the tests look.
class ProgramTest : public testing::Test {
 protected:
  std::string Script(const std::string& name, const std::string& text) {
    const std::string path = folder_.Write(name, absl::StrCat("#!/bin/sh\n", text, "\n"));
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  absl::StatusOr<std::string> Push(const std::string& script) {
    const auto tool = ImageTool::Find(Script("docker", script));
    return tool.ok() ? tool->BuildAndPush({.folder = folder_.path(),
                                           .dockerfile = "Dockerfile",
                                           .repository = "registry.example/me/train",
                                           .tag = "1"})
                     : tool.status();
  }

  const TemporaryFolder folder_;
  const std::string digest_ = absl::StrCat("sha256:", std::string(64, 'a'));
};

TEST_F(ProgramTest, DockersDigestIsThatOfTheRepositoryThatWasPushedTo) {
  const auto digest = Push(absl::StrCat("[ $1 = inspect ] && echo '[\"other@sha256:", std::string(64, 'b'),
                                        "\", \"registry.example/me/train@", digest_, "\"]' || true"));
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(*digest, digest_);
}

TEST_F(ProgramTest, DockersFailuresAreErrors) {
  EXPECT_TRUE(absl::IsAborted(Push("[ $1 != build ]").status()));
  EXPECT_TRUE(absl::IsAborted(Push("[ $1 != push ]").status()));
  EXPECT_TRUE(absl::IsInternal(Push("echo '[]'").status()));
  EXPECT_TRUE(absl::IsInternal(Push("echo '[\"registry.example/me/train@sha256:xyz\"]'").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ImageTool::Find("/nowhere/podman").status()));
}

}  // namespace
}  // namespace adaptdl::cli
