#include "services/supervisor/jobs/group.h"
#include "services/supervisor/jobs/secrets.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

std::shared_ptr<ReplicaRecord> Member(int rank, const std::string& node) {
  auto record = std::make_shared<ReplicaRecord>();
  record->replica.set_replica_id(absl::StrCat("r", rank));
  record->replica.set_rank(rank);
  record->replica.set_node_id(node);
  return record;
}

void Join(ReplicaRecord* member, const std::string& address) {
  member->replica.set_joined(true);
  member->address = address;
}

TEST(RendezvousTest, FormsWhenExactlyAllMembersHaveJoined) {
  const auto a = Member(0, "n1");
  const auto b = Member(1, "n2");
  const auto c = Member(2, "n1");
  const GroupMembers members = {a, b, c};
  Join(a.get(), "n1:5");
  Join(c.get(), "");
  const v1::JoinGroupResponse forming = DescribeGroup(members, 3, 0);
  ASSERT_TRUE(forming.has_forming());
  ASSERT_EQ(forming.forming().missing_size(), 1);
  EXPECT_EQ(forming.forming().missing(0).replica_id(), "r1");
  Join(b.get(), "n2:6");
  const v1::JoinGroupResponse formed = DescribeGroup(members, 3, 1);
  ASSERT_TRUE(formed.has_formed());
  EXPECT_EQ(formed.formed().group(), 3);
  EXPECT_EQ(formed.formed().rank(), 1);
  EXPECT_EQ(formed.formed().world_size(), 3);
  EXPECT_EQ(formed.formed().num_nodes(), 2);
  EXPECT_EQ(formed.formed().master_address(), "n1:5");
  EXPECT_EQ(formed.formed().members(1).address(), "n2:6");
}

TEST(RendezvousTest, ALargeGroupIsToldOfItsGrowthNowAndThen) {
  const auto told = [](int size) {
    std::vector<std::shared_ptr<ReplicaRecord>> members;
    for (int rank = 0; rank < size; ++rank) members.push_back(Member(rank, "n1"));
    std::vector<int> missing;
    for (int rank = 0; rank + 1 < size; ++rank) {
      Join(members[rank].get(), "n1:5");
      if (WorthTelling({members.begin(), members.end()})) missing.push_back(size - 1 - rank);
    }
    return missing;
  };
  EXPECT_THAT(told(5), testing::ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(told(1000), testing::ElementsAre(512, 256, 128, 64, 32, 16, 8, 4, 2, 1));
}

TEST(RendezvousTest, OnlyRankZeroNeedsAnAddress) {
  const GroupMembers members = {Member(0, "n1"), Member(1, "n1")};
  EXPECT_FALSE(CheckJoin(members, 0, "").ok());
  EXPECT_FALSE(CheckJoin(members, 0, "no-port").ok());
  EXPECT_TRUE(CheckJoin(members, 0, "n1:5").ok());
  EXPECT_TRUE(CheckJoin(members, 1, "").ok());
  EXPECT_FALSE(CheckJoin(members, 1, "no-port").ok());
}

TEST(RendezvousTest, AddressesAreFixedOnceTheGroupHasFormed) {
  const auto a = Member(0, "n1");
  const GroupMembers members = {a};
  Join(a.get(), "n1:5");
  EXPECT_TRUE(CheckJoin(members, 0, "n1:5").ok());
  EXPECT_EQ(CheckJoin(members, 0, "n1:6").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RendezvousTest, UnknownMembersAreNotFound) {
  const GroupMembers members = {Member(0, "n1")};
  EXPECT_EQ(FindMember(members, "r0"), 0);
  EXPECT_EQ(FindMember(members, "r9"), -1);
  EXPECT_FALSE(GroupComplete({}));
}

TEST(SameSecretTest, ComparesWhole) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("abc", ""));
}

}  // namespace
}  // namespace adaptdl::supervisor
