#include "libs/elastic/job/state_registry.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"

namespace adaptdl::elastic {
namespace {

class Text final : public CheckpointState {
 public:
  explicit Text(std::string name, bool steps = false) : name_(std::move(name)), steps_(steps) {}

  std::string name() const override { return name_; }
  void Sync() override { ++syncs; }
  std::string Save() override { return value; }
  bool Load(const std::string& bytes) override {
    value = bytes;
    return bytes != "broken";
  }
  bool changes_with_steps() const override { return steps_; }

  std::string value;
  int syncs = 0;

 private:
  const std::string name_;
  const bool steps_;
};

class StateRegistryTest : public testing::Test {
 protected:
  StateRegistry registry_{{}};
  Text a_{"a"}, b_{"b"};
};

TEST_F(StateRegistryTest, LoadsWhatWasRestoredAsItIsRegistered) {
  registry_.Restore({{"a", "1"}});
  EXPECT_TRUE(*registry_.Register(&a_, /*says=*/true));
  EXPECT_EQ(a_.value, "1");
  EXPECT_FALSE(*registry_.Register(&b_, /*says=*/false));
  EXPECT_FALSE(registry_.restored());
}

TEST_F(StateRegistryTest, ErrorsAreTheProgramsAndSayWhatToDo) {
  ASSERT_TRUE(registry_.Register(&a_, true).ok());
  Text twin("a");
  EXPECT_TRUE(absl::IsInvalidArgument(registry_.Register(&twin, true).status()));
  registry_.Unregister(&a_);
  EXPECT_TRUE(registry_.Register(&twin, true).ok());
  registry_.Restore({{"b", "broken"}});
  EXPECT_TRUE(absl::IsInvalidArgument(registry_.Register(&b_, true).status()));
}

TEST_F(StateRegistryTest, CollectsAllStatesAndThoseThatNobodyHasRegisteredYet) {
  registry_.Restore({{"late", "kept"}, {"own", "old"}});
  ASSERT_TRUE(registry_.Register(&a_, true).ok());
  a_.value = "1";
  StateMap states = {{"a", "of an earlier checkpoint"}, {"gone", "text"}};
  registry_.Collect({{"own", "new"}}, &states);
  EXPECT_EQ(states, (StateMap{{"a", "1"}, {"late", "kept"}, {"own", "new"}}));
  EXPECT_EQ(registry_.Restored("late"), "kept");
  EXPECT_EQ(registry_.Restored("nowhere"), "");
}

TEST_F(StateRegistryTest, SynchronizesWhatIsRegistered) {
  ASSERT_TRUE(registry_.Register(&a_, true).ok());
  registry_.Sync();
  EXPECT_EQ(a_.syncs, 1);
  EXPECT_EQ(b_.syncs, 0);
}

TEST_F(StateRegistryTest, OnlyWhatStepsChangeIsTakenOverAfterOne) {
  Text model("model", /*steps=*/true), copy("model", /*steps=*/true);
  StateRegistry other({});
  ASSERT_TRUE(registry_.Register(&model, true).ok());
  ASSERT_TRUE(registry_.Register(&a_, true).ok());
  ASSERT_TRUE(other.Register(&copy, true).ok());
  ASSERT_TRUE(other.Register(&b_, true).ok());
  model.value = "stepped";
  StateMap step;
  registry_.SaveStep(&step);
  EXPECT_EQ(step, (StateMap{{"model", "stepped"}}));
  EXPECT_TRUE(other.LoadStep(step).ok());
  EXPECT_EQ(copy.value, "stepped");
  EXPECT_FALSE(other.LoadStep({}).ok());
}

TEST_F(StateRegistryTest, ANewcomerIsHandedEverything) {
  auto members = comm::CreateInProcessGroup(2);
  registry_.Restore({{"late", "kept"}});
  ASSERT_TRUE(registry_.Register(&a_, true).ok());
  a_.value = "1";
  std::thread sender([&] { EXPECT_TRUE(registry_.Send(*members[0], {{"own", "mine"}}).ok()); });
  Text copy("a");
  StateRegistry newcomer({&copy});
  EXPECT_FALSE(newcomer.has_others_state());
  EXPECT_TRUE(newcomer.Receive(*members[1], /*source=*/0).ok());
  sender.join();
  EXPECT_TRUE(newcomer.has_others_state());
  EXPECT_EQ(newcomer.Restored("own"), "mine");
  EXPECT_EQ(newcomer.Restored("late"), "kept");
  EXPECT_TRUE(*newcomer.Register(&copy, true));
  EXPECT_EQ(copy.value, "1");
}

}  // namespace
}  // namespace adaptdl::elastic
