#include "libs/elastic/job/news_bus.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What two replicas hear of "topic".
class NewsBusTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      buses_[i].Subscribe("topic", [this, i](int rank, const std::string& text) {
        heard_[i].push_back(absl::StrCat(rank, ": ", text));
      });
    }
  }

  double Offered(int i) {
    double signal = 0;
    buses_[i].Offer(/*in_step=*/true, absl::MakeSpan(&signal, 1));
    return signal;
  }

  void Exchange() {
    auto members = comm::CreateInProcessGroup(2);
    const auto exchange = [&](int i) {
      buses_[i].Exchange([&](const std::string& own) { return *members[i]->AllGather(own); });
    };
    std::thread other([&] { exchange(1); });
    exchange(0);
    other.join();
  }

  NewsBus buses_[2];
  std::vector<std::string> heard_[2];
};

TEST_F(NewsBusTest, AllHearAllInOrderOfRank) {
  EXPECT_EQ(Offered(0), 0);
  buses_[1].Announce("topic", "first");
  buses_[1].Announce("topic", "second");
  buses_[0].Announce("topic", "third");
  EXPECT_EQ(Offered(0), 1);
  buses_[0].OnAgreed({2}, 2);
  EXPECT_TRUE(buses_[0].due());
  Exchange();
  EXPECT_THAT(heard_[0], ElementsAre("0: third", "1: first", "1: second"));
  EXPECT_EQ(heard_[0], heard_[1]);
  EXPECT_FALSE(buses_[0].due());
  EXPECT_EQ(Offered(0), 0) << "it was said";
}

TEST_F(NewsBusTest, NobodyHearsWhatNobodySubscribedTo) {
  buses_[0].Announce("other", "text");
  buses_[1].Subscribe("topic", nullptr);
  buses_[0].Announce("topic", "text");
  Exchange();
  EXPECT_THAT(heard_[0], ElementsAre("0: text"));
  EXPECT_THAT(heard_[1], IsEmpty());
}

TEST_F(NewsBusTest, StayDueUntilTheyAreExchanged) {
  buses_[0].OnAgreed({1}, 2);
  buses_[0].OnAgreed({0}, 2);
  EXPECT_TRUE(buses_[0].due());
}

}  // namespace
}  // namespace adaptdl::elastic
