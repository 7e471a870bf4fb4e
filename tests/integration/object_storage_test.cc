// Nodes that share no file system: jobs go on elsewhere from what is in the object store at $S3_ENDPOINT.

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "libs/http/pauses.h"
#include "libs/objectstore/s3_store.h"
#include "tests/integration/test_cluster.h"
#include "tests/integration/training_data.h"

namespace adaptdl::integration {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kEpochs = 3;
constexpr int kSteps = 375;
constexpr absl::Duration kPatience = absl::Minutes(5);

std::string Endpoint() { return getenv("S3_ENDPOINT"); }  // NOLINT(concurrency-mt-unsafe): nobody sets any

class ObjectStorageTest : public testing::Test {
 protected:
  std::vector<std::string> Keys(const std::string& prefix) {
    std::vector<std::string> keys;
    const absl::Status status = store_.List(prefix,
                                            [&](const objectstore::ObjectInfo& object) {
                                              keys.push_back(object.key);
                                              return absl::OkStatus();
                                            },
                                            {});
    EXPECT_TRUE(status.ok()) << status;
    return keys;
  }
  std::string Read(const std::string& key) {
    const absl::StatusOr<objectstore::ObjectInfo> info = store_.Head(key, {});
    return info.ok() ? objectstore::ReadObject(store_, *info, 1000, {}).value_or("") : "";
  }
  v1::Job JobOnce(const std::string& name, const JobPredicate& predicate) {
    const auto job = cluster_.WaitForJob(name, predicate, kPatience);
    EXPECT_TRUE(job.ok()) << job.status() << "\n" << cluster_.Logs(name);
    return job.value_or(v1::Job());
  }
  std::string WorkerLog(int index) {
    std::ifstream file(absl::StrCat(cluster_.folder(), "/node-", index, ".log"));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void Delete(const std::string& name) {
    v1::DeleteJobRequest request;
    request.set_request_id(RandomHex(16));
    request.set_name(name);
    v1::DeleteJobResponse response;
    grpc::ClientContext context;
    const grpc::Status status = cluster_.jobs().DeleteJob(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  RealClock clock_;
  RealPauses pauses_;
  aws::FixedCredentials credentials_{{.access_key_id = "test", .secret_access_key = "secret"}};
  HttpClient http_;
  objectstore::S3Store store_{{.bucket = "models", .region = "us-east-1", .endpoint = Endpoint()},
                              {&http_, &credentials_, &clock_, &pauses_, [] { return 0.5; }}};
  TestCluster cluster_{
      {.workers = 2, .allocator = false, .shared_storage = false, .worker_flags = [](int /*index*/) {
         return std::vector<std::string>{"--storage-url", "s3://models/cluster", "--storage-endpoint",
                                         Endpoint()};
       }}};
};

TEST_F(ObjectStorageTest, AJobGoesOnElsewhereFromItsCheckpointAndItsResultsStay) {
  ASSERT_TRUE(objectstore::WriteObject(store_, "data/words", "some words", {}).ok());
  cluster_.SetWorkerEnvironment({"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=secret"});
  ASSERT_TRUE(cluster_.Start().ok());

  v1::Job training = cluster_.MnistJob("training", MnistArguments(kEpochs));
  training.mutable_spec()->set_rescale(v1::RESCALE_MODE_RESTART);
  ASSERT_TRUE(cluster_.Submit(training).ok());
  ASSERT_TRUE(cluster_.Allocate("training", {"node-0"}).ok());
  JobOnce("training", StepsReached(20));
  ASSERT_TRUE(cluster_.Allocate("training", {"node-1"}).ok());

  // Meanwhile: data of its own, and results.
  v1::Job reader = cluster_.CommandJob(
      "reader", {"sh", "-c", "cat $ADAPTDL_DATA_PATH/train/words > $ADAPTDL_SHARE_PATH/read"});
  v1::DataSet* data = reader.mutable_spec()->mutable_template_()->add_data_sets();
  data->set_name("train");
  data->set_url("s3://models/data");
  ASSERT_TRUE(cluster_.Submit(reader).ok());
  ASSERT_TRUE(cluster_.Allocate("reader", {"node-0"}).ok());
  const v1::Job read = JobOnce("reader", Finished);
  EXPECT_EQ(read.status().phase(), v1::JOB_PHASE_SUCCEEDED) << cluster_.Logs("reader");
  EXPECT_EQ(Read(absl::StrCat("cluster/default/reader-", read.uid(), "/share/read")), "some words");

  const v1::Job trained = JobOnce("training", Finished);
  EXPECT_EQ(trained.status().phase(), v1::JOB_PHASE_SUCCEEDED) << trained.status().ShortDebugString();
  EXPECT_EQ(trained.status().failures(), 0);
  EXPECT_EQ(trained.status().progress().optimizer_steps(), kSteps) << "no step was lost, none done twice";
  const std::string prefix = absl::StrCat("cluster/default/training-", trained.uid(), "/");
  EXPECT_THAT(Keys(prefix), Contains(HasSubstr("/manifests/")));
  EXPECT_THAT(WorkerLog(0), Not(HasSubstr("checkpoint fetched")));
  EXPECT_THAT(WorkerLog(1), HasSubstr("checkpoint fetched folder=cluster/default/training-"));
  // Those of the second group are counted on from those of the first.
  EXPECT_THAT(Keys(prefix + "manifests/").back(), Not(HasSubstr("-00000000000000000001")));

  Delete("training");
  // Each node removes it; the store is asked until it has nothing left.
  const absl::Time deadline = clock_.Steady() + kPatience;
  while (!Keys(prefix).empty() && clock_.Steady() < deadline) clock_.SleepFor(absl::Milliseconds(100));
  EXPECT_THAT(Keys(prefix), IsEmpty());
}

}  // namespace
}  // namespace adaptdl::integration
