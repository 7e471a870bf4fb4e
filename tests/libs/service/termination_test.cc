#include "libs/service/termination.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <latch>
#include <thread>

#include "gtest/gtest.h"

namespace adaptdl::service {
namespace {

// As those that libraries make before main().
TEST(TerminationTest, ASignalThatReachesAThreadFromBeforeIsNotLost) {
  std::latch over(1);
  std::thread older([&] { over.wait(); });
  const auto termination = Termination::Create();
  ASSERT_TRUE(termination.ok()) << termination.status();
  for (int i = 0; i < 2; ++i) {
    // To the thread first, which would end the process; then to any.
    if (i == 0) {
      ASSERT_EQ(pthread_kill(older.native_handle(), SIGTERM), 0);
    } else {
      ASSERT_EQ(kill(getpid(), SIGTERM), 0);
    }
    EXPECT_EQ((*termination)->Wait(), "SIGTERM");
  }
  over.count_down();
  older.join();
}

TEST(TerminationTest, ARequestStandsForAllLaterWaits) {
  const auto termination = Termination::Create();
  ASSERT_TRUE(termination.ok()) << termination.status();
  (*termination)->Request();
  EXPECT_EQ((*termination)->Wait(), "request");
  EXPECT_EQ((*termination)->Wait(), "request");
}

}  // namespace
}  // namespace adaptdl::service
