// Membership alone, between two threads: what one member is told about the failure of the other.

#include "libs/comm/membership.h"

#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/comm/signature.h"
#include "libs/comm/tcp_rendezvous.h"

namespace adaptdl::comm {
namespace {

ConnectOptions Options(int rank) {
  return {.rank = rank, .size = 2, .group = 1, .token = "t", .host = "127.0.0.1"};
}

std::unique_ptr<Membership> Meet(TcpRendezvous& rendezvous, int rank) {
  absl::StatusOr<TcpRendezvous::Meeting> meeting = rendezvous.Meet(Options(rank), "");
  EXPECT_TRUE(meeting.ok()) << meeting.status();
  return std::make_unique<Membership>(Options(rank), *std::move(meeting), [] {});
}

// A member that is one collective ahead aborts and closes its connections, while the other still waits for
// them in the collective before.
TEST(Membership, TheReasonOfAnAbortExplainsABrokenConnection) {
  auto host = TcpRendezvous::Host("127.0.0.1");
  ASSERT_TRUE(host.ok()) << host.status();
  std::unique_ptr<Membership> ahead;
  std::thread host_thread([&] { ahead = Meet(**host, 0); });
  auto guest = TcpRendezvous::Join((*host)->address());
  ASSERT_TRUE(guest.ok()) << guest.status();
  std::unique_ptr<Membership> behind = Meet(**guest, 1);
  host_thread.join();

  ASSERT_TRUE(behind->Begin(0, FormingSignature(), absl::InfiniteDuration()).ok());
  ASSERT_TRUE(ahead->Begin(0, FormingSignature(), absl::InfiniteDuration()).ok());
  ASSERT_TRUE(ahead->End().ok());
  (void)ahead->Fail(absl::AbortedError("enough"), absl::UnavailableError("rank 0 has aborted: enough"));
  ahead.reset();

  EXPECT_EQ(behind->Broken(0, "end of file"), absl::UnavailableError("rank 0 has aborted: enough"));
}

}  // namespace
}  // namespace adaptdl::comm
