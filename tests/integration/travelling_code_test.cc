// A folder that travels: a client and workers that share no folder with it, the real programs, and what breaks on the
// way. And jobs that ask for nodes, which these workers differ in.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/code_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/archive/pack.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/base/unique_fd.h"
#include "libs/rpc/channel.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr size_t kPiece = 1 << 20;

// Fits a line to points by gradient descent, with a module of the same folder, and says what it has found.
constexpr char kTrain[] = R"(import lib.model
points = [(x / 10, 3 * x / 10 + 1) for x in range(20)]
model = lib.model.Line()
for epoch in range(2000):
    model.step(points, 0.1)
print("trained", round(model.slope, 2), round(model.offset, 2))
)";
constexpr char kModel[] = R"(class Line:
    slope = offset = 0.0
    def step(self, points, rate):
        errors = [(x, self.slope * x + self.offset - y) for x, y in points]
        self.slope -= rate * sum(x * e for x, e in errors) / len(points)
        self.offset -= rate * sum(e for _, e in errors) / len(points)
)";

// Of one who submits: a folder that nobody else may look into.
class ClientFolder {
 public:
  ClientFolder() : path_(absl::StrCat(testing::TempDir(), "/client-", RandomHex(8))) {
    fs::create_directories(path_);
    chmod(path_.c_str(), 0700);
  }
  ~ClientFolder() { fs::remove_all(path_); }

  void Write(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(path_) / "program" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // The archive of it, beside it.
  absl::StatusOr<archive::Packed> Pack() const {
    const absl::StatusOr<archive::FolderContents> contents = archive::ScanFolder(path_ + "/program", {});
    if (!contents.ok()) return contents.status();
    const UniqueFd file(open(ArchivePath().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return archive::PackFolder(path_ + "/program", *contents, file.get());
  }
  std::string ArchivePath() const { return path_ + "/archive"; }

 private:
  const std::string path_;
};

class CodeTest : public testing::Test {
 protected:
  CodeTest()
      : cluster_({.workers = 2,
                  .separate_users = geteuid() == 0,
                  .gpus = "1",
                  .worker_flags = [](int index) -> std::vector<std::string> {
                    return {"--label", absl::StrCat("disk=", index == 0 ? "hdd" : "ssd"), "--gpu-type",
                            index == 0 ? "T4" : "NVIDIA A100"};
                  }}) {}

  void SetUp() override {
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  std::unique_ptr<v1::CodeService::Stub> Service() {
    return v1::CodeService::NewStub(
        rpc::CreateChannel(cluster_.supervisor_address(), cluster_.Security("supervisor")));
  }
  v1::StatCodeResponse Stat(const std::string& digest) {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kPatience);
    context.set_wait_for_ready(true);
    v1::StatCodeRequest request;
    request.set_digest(digest);
    v1::StatCodeResponse response;
    const grpc::Status status = Service()->StatCode(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  // Sends the archive from `offset` on, until its end or `end`. `then` is called before the end of the stream.
  grpc::Status Upload(
      const ClientFolder& client, const archive::Packed& packed, int64_t offset,
      size_t end = std::string::npos, const std::function<void()>& then = [] {}) {
    const std::string content = *ReadWholeFile(client.ArchivePath(), int64_t{1} << 30);
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kPatience);
    v1::UploadCodeResponse response;
    const auto service = Service();
    const auto stream = service->UploadCode(&context, &response);
    v1::UploadCodeRequest request;
    request.set_digest(packed.digest);
    request.set_size(packed.size);
    request.set_offset(offset);
    for (size_t sent = offset; sent < std::min(end, content.size()); sent += kPiece) {
      request.set_data(content.substr(sent, kPiece));
      if (!stream->Write(request)) break;
    }
    then();
    stream->WritesDone();
    return stream->Finish();
  }
  // Packs the folder and uploads what is not there.
  v1::CodeArchive Send(const ClientFolder& client) {
    const absl::StatusOr<archive::Packed> packed = client.Pack();
    EXPECT_TRUE(packed.ok()) << packed.status();
    const v1::StatCodeResponse there = Stat(packed->digest);
    if (!there.complete()) {
      const grpc::Status status = Upload(client, *packed, there.received());
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
    v1::CodeArchive code;
    code.set_digest(packed->digest);
    code.set_size(packed->size);
    return code;
  }
  // What a job with the folder has written when it has succeeded.
  std::string Run(const std::string& name, const v1::CodeArchive& code,
                  const std::vector<std::string>& command, const std::string& working_directory = "") {
    v1::Job job = cluster_.CommandJob(name, command);
    *job.mutable_spec()->mutable_template_()->mutable_code() = code;
    job.mutable_spec()->mutable_template_()->set_working_directory(working_directory);
    const auto submitted = cluster_.Submit(job);
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    const auto ended = cluster_.WaitForJob(name, Finished, kPatience);
    EXPECT_TRUE(ended.ok()) << ended.status();
    if (!ended.ok()) return "";
    EXPECT_EQ(ended->status().phase(), v1::JOB_PHASE_SUCCEEDED) << ended->status().ShortDebugString() << "\n"
                                                                << cluster_.Logs(name);
    return cluster_.Logs(name);
  }
  void Delete(const std::string& name) {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kPatience);
    v1::DeleteJobRequest request;
    request.set_request_id(RandomHex(8));
    request.set_name(name);
    v1::DeleteJobResponse response;
    const grpc::Status status = cluster_.jobs().DeleteJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  // Unpacked folders of jobs on all nodes.
  int FoldersOfJobs() const {
    int count = 0;
    for (const std::string node : {"node-0", "node-1"}) {
      std::error_code error;
      for (const auto& entry :
           fs::directory_iterator(absl::StrCat(cluster_.folder(), "/", node, "/job-code/default"), error)) {
        (void)entry;
        ++count;
      }
    }
    return count;
  }
  bool WaitUntil(const std::function<bool()>& met) const {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!met() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(50));
    return met();
  }

  TestCluster cluster_;
};

TEST_F(CodeTest, AFolderTravelsAndAChangedFileIsWhatRunsNext) {
  v1::CodeArchive first;
  v1::CodeArchive second;
  {
    const ClientFolder client;
    client.Write("train.py", kTrain);
    client.Write("lib/model.py", kModel);
    client.Write("lib/__pycache__/model.cpython-311.pyc", "not of this folder");
    first = Send(client);
    client.Write("lib/model.py", std::string(kModel) + "print('changed')\n");
    second = Send(client);
  }
  // From here on nothing of the client is left.
  const std::vector<std::string> train = {"/usr/bin/python3", "train.py"};
  std::string log = Run("first", first, train);
  EXPECT_THAT(log, HasSubstr("trained 3.0 1.0"));
  EXPECT_THAT(log, Not(HasSubstr("changed")));
  log = Run("second", second, train);
  EXPECT_THAT(log, HasSubstr("trained 3.0 1.0"));
  EXPECT_THAT(log, HasSubstr("changed"));
  // Whatever a job does to its folder, no other one sees it.
  Run("vandal", first, {"sh", "-c", "echo 'print(666)' >train.py && rm -r lib"});
  EXPECT_THAT(Run("third", first, train), HasSubstr("trained 3.0 1.0"));
  EXPECT_THAT(Run("inside", first, {"sh", "-c", "ls; stat -c %u . model.py | uniq -c"}, "lib"),
              ::testing::AllOf(HasSubstr("model.py"), HasSubstr(" 2 ")));
  EXPECT_EQ(FoldersOfJobs(), 5);
  for (const std::string name : {"first", "second", "vandal", "third", "inside"}) Delete(name);
  EXPECT_TRUE(WaitUntil([&] { return FoldersOfJobs() == 0; }));
}

TEST_F(CodeTest, AnUploadOutlivesItsSupervisor) {
  const ClientFolder client;
  client.Write("run.sh", "wc -c <data");
  std::string noise(size_t{16} << 20, '\0');
  uint64_t state = 88172645463325252;
  for (char& byte : noise) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state);
  }
  client.Write("data", noise);
  const absl::StatusOr<archive::Packed> packed = client.Pack();
  ASSERT_TRUE(packed.ok()) << packed.status();
  const int64_t half = int64_t{8} << 20;
  const grpc::Status broken = Upload(client, *packed, 0, half, [&] {
    EXPECT_TRUE(WaitUntil([&] { return Stat(packed->digest).received() == half; }));
    cluster_.supervisor().Kill();
  });
  EXPECT_FALSE(broken.ok());
  ASSERT_TRUE(cluster_.StartSupervisor().ok());
  EXPECT_EQ(Stat(packed->digest).received(), half);
  EXPECT_FALSE(Stat(packed->digest).complete());
  const v1::CodeArchive code = Send(client);
  ASSERT_TRUE(cluster_.WaitForNodes(2, kPatience).ok());
  EXPECT_THAT(Run("a", code, {"sh", "run.sh"}), HasSubstr(absl::StrCat(noise.size())));
}

TEST_F(CodeTest, JobsGoToTheNodesThatTheyAskFor) {
  const auto submit = [&](const std::string& name, const v1::Placement& placement) {
    v1::Job job = cluster_.CommandJob(name, {"sh", "-c", "echo on $ADAPTDL_NODE_ID"});
    *job.mutable_spec()->mutable_template_()->mutable_placement() = placement;
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(1);
    const auto submitted = cluster_.Submit(job);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
  };
  v1::Placement selector, type, missing;
  (*selector.mutable_node_selector())["disk"] = "hdd";
  type.add_gpu_types("nvidia a100");
  missing.add_gpu_types("H100");
  submit("selector", selector);
  submit("type", type);
  submit("missing", missing);
  ASSERT_TRUE(cluster_.WaitForJob("selector", Finished, kPatience).ok());
  EXPECT_THAT(cluster_.Logs("selector"), HasSubstr("on node-0"));
  ASSERT_TRUE(cluster_.WaitForJob("type", Finished, kPatience).ok());
  EXPECT_THAT(cluster_.Logs("type"), HasSubstr("on node-1"));
  EXPECT_TRUE(WaitUntil([&] {
    for (const v1::Event& event : cluster_.Events("missing")) {
      if (event.reason() == "Unschedulable" &&
          event.message().find("GPUs of type H100") != std::string::npos) {
        return true;
      }
    }
    return false;
  }));
}

}  // namespace
}  // namespace adaptdl::integration
