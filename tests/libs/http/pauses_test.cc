#include "libs/http/pauses.h"

#include <csignal>
#include <thread>

#include "gtest/gtest.h"
#include "libs/http/no_sigpipe.h"

namespace adaptdl {
namespace {

TEST(PausesTest, APauseEndsByItself) {
  EXPECT_TRUE(RealPauses().WaitFor(absl::Milliseconds(1), {}));
  EXPECT_TRUE(RealPauses().WaitFor(-absl::Seconds(1), {}));
}

TEST(PausesTest, AStopRequestEndsIt) {
  std::stop_source stop;
  std::thread waits([&] { EXPECT_FALSE(RealPauses().WaitFor(absl::InfiniteDuration(), stop.get_token())); });
  stop.request_stop();
  waits.join();
  EXPECT_FALSE(RealPauses().WaitFor(absl::InfiniteDuration(), stop.get_token()));
}

bool IsBlocked() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, SIGPIPE) == 1;
}

// Without the guard the signal would end the test.
TEST(NoSigpipeTest, TheSignalDoesNotArriveThenOrLater) {
  {
    const NoSigpipe guard;
    pthread_kill(pthread_self(), SIGPIPE);
  }
  EXPECT_FALSE(IsBlocked());
}

TEST(NoSigpipeTest, WhatWasBlockedStaysSo) {
  const NoSigpipe outer;
  { const NoSigpipe inner; }
  EXPECT_TRUE(IsBlocked());
}

}  // namespace
}  // namespace adaptdl
