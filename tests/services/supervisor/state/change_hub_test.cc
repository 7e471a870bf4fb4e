#include "services/supervisor/state/change_hub.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

class Listener final : public ChangeListener {
 public:
  void OnChanges(const Changes& changes) override {
    MutexLock lock(&mutex_);
    heard_ += static_cast<int>(changes.jobs.size());
    changed_.SignalAll();
  }
  void WaitFor(int heard) {
    MutexLock lock(&mutex_);
    while (heard_ < heard) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int heard_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Nothing changes any more of a job that has finished, however many ask for its logs.
TEST(ChangeHubTest, ListenersThatAreGoneTakeNoMemoryAlsoIfNothingChanges) {
  ChangeHub hub;
  const auto stays = std::make_shared<Listener>();
  hub.SubscribeToJob("running", stays);
  for (int i = 0; i < 10'000; ++i) {
    hub.SubscribeToJob(absl::StrCat("finished-", i % 10), std::make_shared<Listener>());
    hub.Subscribe(std::make_shared<Listener>());
  }
  EXPECT_LE(hub.size(), 64u);
  Changes changes;
  changes.jobs["running"] = {"default"};
  hub.Notify(changes);
  stays->WaitFor(1);
}

TEST(ChangeHubTest, ListenersThatAreThereAreKeptHoweverManyTheyAre) {
  ChangeHub hub;
  std::vector<std::shared_ptr<Listener>> listeners;
  for (int i = 0; i < 500; ++i) {
    listeners.push_back(std::make_shared<Listener>());
    hub.SubscribeToJob("job", listeners.back());
    hub.SubscribeToJob("job", std::make_shared<Listener>());
  }
  EXPECT_LE(hub.size(), 1001u);
  Changes changes;
  changes.jobs["job"] = {"default"};
  hub.Notify(changes);
  for (const auto& listener : listeners) listener->WaitFor(1);
  EXPECT_EQ(hub.size(), 500u);
}

}  // namespace
}  // namespace adaptdl::supervisor
