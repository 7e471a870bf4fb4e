#include "libs/jobs/replica_id.h"

#include <string>

#include "gtest/gtest.h"

namespace adaptdl::jobs {
namespace {

constexpr char kUid[] = "0123abcd-4567-89ab-cdef-0123456789ab";

TEST(ReplicaIdTest, IsOfItsJobAlone) {
  const std::string id = ReplicaId(ReplicaIdPrefix("train-it", kUid), 12, 3);
  EXPECT_EQ(id, "train-it-0123abcd-12-3");
  EXPECT_TRUE(MayBeReplicaOf(id, kUid));
  EXPECT_FALSE(MayBeReplicaOf(id, "ffff0000-4567-89ab-cdef-0123456789ab"));
  EXPECT_FALSE(MayBeReplicaOf("0123abcd-train-it-12-3", kUid)) << "what a job is called counts nothing";
  for (const char* name : {"", "a", "a-b", "a-b-c", "-0123abcd", "0123abcd-1-2"}) {
    EXPECT_FALSE(MayBeReplicaOf(name, kUid)) << name;
  }
  EXPECT_FALSE(MayBeReplicaOf("a--1-2", "")) << "a pod that no job owns";
}

}  // namespace
}  // namespace adaptdl::jobs
