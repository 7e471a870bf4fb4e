#include "libs/kube/json/json.h"

#include "gtest/gtest.h"
#include "libs/kube/json/object.h"

namespace adaptdl::kube {
namespace {

TEST(JsonTest, ReadsWhatIsThere) {
  const Json json = {{"a", {{"b", "text"}, {"n", 7}, {"t", true}}}};
  EXPECT_EQ(TextAt(json, {"a", "b"}), "text");
  EXPECT_EQ(IntegerAt(json, {"a", "n"}), 7);
  EXPECT_TRUE(BoolAt(json, {"a", "t"}));
}

TEST(JsonTest, WhatIsNotThereOrOfAnotherTypeIsEmpty) {
  const Json json = {{"a", {1, 2}}, {"s", "text"}};
  EXPECT_TRUE(At(json, {"a", "b"}).is_null());
  EXPECT_TRUE(At(json, {"x", "y", "z"}).is_null());
  EXPECT_EQ(TextAt(json, {"a"}), "");
  EXPECT_EQ(IntegerAt(json, {"s"}), 0);
  EXPECT_EQ(IntegerAt(Json(1.5), {}), 0);
  EXPECT_FALSE(BoolAt(json, {"s"}));
}

TEST(JsonTest, NeverThrows) {
  EXPECT_EQ(ParseJson("{\"a\":").status().code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(Dump(Json("\xff")), "\"\xEF\xBF\xBD\"");
}

TEST(JsonTest, TimesGoThereAndBack) {
  const absl::Time time = *TimeFromText("2026-01-02T03:04:05Z");
  EXPECT_EQ(TimeText(time), "2026-01-02T03:04:05Z");
  EXPECT_EQ(MicroTimeText(time + absl::Microseconds(6)), "2026-01-02T03:04:05.000006Z");
  EXPECT_EQ(*TimeFromText("2026-01-02T04:04:05.000006+01:00"), time + absl::Microseconds(6));
  EXPECT_FALSE(TimeFromText("yesterday").ok());
}

TEST(ObjectTest, ReadsMetadata) {
  const Json pod = *ParseJson(R"({"metadata": {
    "namespace": "n", "name": "p", "uid": "u", "resourceVersion": "9", "deletionTimestamp": "2026-01-02T03:04:05Z",
    "labels": {"l": "v"}, "annotations": {"a": "w"},
    "ownerReferences": [{"kind": "X", "uid": "1"}, {"kind": "AdaptDLJob", "name": "j", "uid": "2", "controller": true}]
  }})");
  EXPECT_EQ(KeyOf(pod), (ObjectKey{"n", "p"}));
  EXPECT_EQ(KeyOf(pod).ToString(), "n/p");
  EXPECT_EQ(UidOf(pod), "u");
  EXPECT_EQ(ResourceVersionOf(pod), "9");
  EXPECT_EQ(LabelOf(pod, "l"), "v");
  EXPECT_EQ(AnnotationOf(pod, "a"), "w");
  EXPECT_TRUE(IsBeingDeleted(pod));
  EXPECT_EQ(ControllerOf(pod).kind, "AdaptDLJob");
  EXPECT_EQ(ControllerOf(pod).uid, "2");
}

TEST(ObjectTest, AnythingIsAnObject) {
  for (const Json& json :
       {Json(), Json(1), Json{{"metadata", "text"}}, Json{{"metadata", {{"labels", 1}}}}}) {
    EXPECT_EQ(KeyOf(json), ObjectKey());
    EXPECT_EQ(LabelOf(json, "l"), "");
    EXPECT_FALSE(IsBeingDeleted(json));
    EXPECT_EQ(ControllerOf(json).uid, "");
  }
}

}  // namespace
}  // namespace adaptdl::kube
