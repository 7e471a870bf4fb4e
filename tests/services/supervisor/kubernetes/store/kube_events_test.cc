#include "services/supervisor/kubernetes/store/kube_events.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/services/supervisor/kubernetes/store/store_fixture.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

class KubeEventsTest : public KubeStoreTest {
 protected:
  static v1::Event Event(int64_t id) {
    v1::Event event;
    event.set_id(id);
    event.set_namespace_("default");
    event.set_job("a");
    event.set_job_uid("uid-a");
    event.set_type(v1::EVENT_TYPE_WARNING);
    event.set_reason("ReplicaFailed");
    event.set_message("replica 1 exited with code 1");
    return event;
  }
  std::vector<Json> Told() { return client_.ListAll(kube::Collection(Events(), "default")).value(); }
};

TEST_F(KubeEventsTest, AreToldAboutTheirJob) {
  KubeEvents events(&client_, "supervisor-0");
  events.Tell(Event(255));
  v1::Event of_no_job = Event(256);
  of_no_job.clear_job();
  events.Tell(of_no_job);
  events.Flush();
  const std::vector<Json> told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(kube::KeyOf(told[0]).name, "a.ff");
  EXPECT_EQ(kube::TextAt(told[0], {"regarding", "uid"}), "uid-a");
  EXPECT_EQ(kube::TextAt(told[0], {"reason"}), "ReplicaFailed");
  EXPECT_EQ(kube::TextAt(told[0], {"type"}), "Warning");
  EXPECT_EQ(kube::TextAt(told[0], {"note"}), "replica 1 exited with code 1");
  EXPECT_EQ(kube::TextAt(told[0], {"reportingInstance"}), "supervisor-0");
  EXPECT_EQ(events.lost(), 0);
}

TEST_F(KubeEventsTest, WarnOfOtherObjects) {
  KubeEvents events(&client_, "supervisor-0");
  const Json quota = {{"apiVersion", "adaptdl.petuum.com/v1"},
                      {"kind", "AdaptDLQuota"},
                      {"metadata", {{"namespace", "default"}, {"name", "quota"}, {"uid", "uid-q"}}}};
  events.Warn(quota, "QuotaInvalid", "spec.gpus is -3", absl::FromUnixMicros(255));
  events.Flush();
  const std::vector<Json> told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(kube::KeyOf(told[0]).name, "quota.ff");
  EXPECT_EQ(kube::TextAt(told[0], {"regarding", "kind"}), "AdaptDLQuota");
  EXPECT_EQ(kube::TextAt(told[0], {"regarding", "uid"}), "uid-q");
  EXPECT_EQ(kube::TextAt(told[0], {"type"}), "Warning");
  EXPECT_EQ(kube::TextAt(told[0], {"note"}), "spec.gpus is -3");
}

TEST_F(KubeEventsTest, OneThatIsRefusedIsLostAndTheNextIsTold) {
  Control("POST", "faults", {{{"verb", "create"}, {"status", 500}}, {{"verb", "create"}, {"cut", "after"}}});
  KubeEvents events(&client_, "supervisor-0");
  for (const int64_t id : {1, 2, 3}) events.Tell(Event(id));
  events.Flush();
  EXPECT_EQ(Told().size(), 2u);
  EXPECT_EQ(events.lost(), 2) << "also one of which nobody knows";
}

TEST_F(KubeEventsTest, WhatIsTooMuchOrTooLongIsCut) {
  v1::Event event = Event(1);
  event.set_message(std::string(5000, 'x'));
  event.set_reason(std::string(500, 'y'));
  event.set_count(7);
  const Json object = EventObject(event, std::string(500, 'z'));
  EXPECT_EQ(object["note"].get<std::string>().size(), 1024u);
  EXPECT_EQ(object["reason"].get<std::string>().size(), 128u);
  EXPECT_EQ(object["reportingInstance"].get<std::string>().size(), 128u);
  EXPECT_EQ(object["series"]["count"], 7);
}

TEST_F(KubeEventsTest, EndWithWhatWaits) {
  server_.Stop();
  auto events = std::make_unique<KubeEvents>(&client_, "supervisor-0");
  for (size_t i = 0; i < 2 * KubeEvents::kMostWaiting; ++i) events->Tell(Event(static_cast<int64_t>(i)));
  EXPECT_GT(events->lost(), 0);
  events.reset();
  server_.Start();
}

}  // namespace
}  // namespace adaptdl::supervisor
