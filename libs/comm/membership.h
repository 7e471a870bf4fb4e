// Who of a group is still there and how far each has come; decides the one failure that ends the group.
//
// Rank 0 keeps the connections that the rendezvous made to every other member, and passes on what it learns.
// Data does not go this way. A thread watches the connections:
//   - One that ends without a farewell is a lost member. All are told; a collective that is under way may
//   still
//     come to its end within a short grace period, since the lost one may have done its part.
//   - A collective that takes long is reported by each member that waits in it, again and again, as often as
//     the least patient of them needs it. So rank 0 knows, and tells, who has not begun it, and notices
//     members that began different ones.
//   - At the deadline, whoever has not reported is to blame.
//   - A failure of one member is sent to all, so that all fail with the same message, at once.
//
// Inside libs/comm only. Thread-safe.

#ifndef ADAPTDL_LIBS_COMM_MEMBERSHIP_H_
#define ADAPTDL_LIBS_COMM_MEMBERSHIP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/comm/signature.h"
#include "libs/comm/socket.h"
#include "libs/comm/tcp_rendezvous.h"

namespace adaptdl::comm {

class Membership {
 public:
  // `on_failure` is called once at most, when the group fails: it must end the waits under way, and may come
  // from any thread that calls a method here, or from the watching one.
  Membership(const ConnectOptions& options, TcpRendezvous::Meeting meeting, std::function<void()> on_failure);

  // Bids the others farewell: collectives that have begun elsewhere with this member's part in them go on.
  ~Membership();

  // The failure that ended the group, or OK.
  absl::Status status();

  // The same, after `time` at most, or as soon as the group has failed.
  absl::Status AwaitFailure(absl::Duration time);

  // This member takes part in collective number `number`; its time, `timeout`, starts to run. Fails if the
  // group has failed or somebody who is needed has gone.
  absl::Status Begin(uint64_t number, const Signature& signature, absl::Duration timeout);

  // The collective is done. Fails if the group has failed meanwhile.
  absl::Status End();

  // How far the collective is, for messages: waits for `peer` (negative: nobody in particular) in step `step`
  // of `steps`.
  void SetStep(int peer, int step, int steps);

  // The same step goes on, with `peer`. `bulk`: a message of any size, of which nobody sees how much has
  // come.
  void SetPeer(int peer, bool bulk);

  // Nothing once the group has failed.
  std::optional<Standing> standing();

  // Ends the group here and everywhere else, unless something else did before; returns what ended it.
  absl::Status Fail(const absl::Status& status);

  // As Fail(), with what the others are to be told instead.
  absl::Status Fail(const absl::Status& here, const absl::Status& elsewhere);

  // The connection to `peer` broke during the collective that is under way. Waits for a moment for what the
  // others know about it.
  absl::Status Broken(int peer, absl::string_view error);

  // `peer` has begun something else than this member.
  absl::Status Mismatch(int peer, uint64_t its_number, const Signature& its_signature);

 private:
  struct Current {
    uint64_t number = 0;
    Signature signature;
    absl::Time start;
    absl::Duration timeout;
    absl::Duration period;  // between reports
    int peer = -1;
    int step = 0;
    int steps = 0;
    bool bulk = false;
  };

  // What is known about a member.
  struct Member {
    uint64_t begun = 0;  // how many collectives it is known to have begun
    absl::Time heard;    // when that was last heard
    bool gone = false;   // connection ended
    uint64_t done = 0;   // how many collectives it had finished when it bade farewell
    std::string why;     // it is gone
  };

  struct Link {
    int peer = 0;
    Socket socket;
    std::string received;
    Mutex send_mutex;
  };

  struct Message;

  void Watch();
  void Pass(absl::Time now);
  void Read(Link* link);
  void Handle(Link* from, const Message& message, const std::string& text);
  void HandleFailed(uint64_t number, const absl::Status& status);
  void NotePosition(int rank, uint64_t begun);
  void KeepPace(uint64_t number, absl::Duration period);
  void Answer(uint64_t number);
  void HandleGone(int rank, uint64_t done, const std::string& why);
  void Compare(int rank, uint64_t number, const Signature& signature);
  void Report(const Current& current);
  absl::Status FailLocally(const absl::Status& status);
  void SendTo(Link* link, Message message, absl::string_view text);
  void SendToAll(const Message& message, absl::string_view text, const Link* except);
  absl::Time NextWake(absl::Time now);
  absl::Status GoneStatus(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Where() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Suspects(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int rank_;
  const int size_;
  const std::function<void()> on_failure_;
  std::vector<std::unique_ptr<Link>> links_;
  int wake_[2];  // a pipe: a byte wakes the watching thread, which looks at ending_
  std::atomic<bool> ending_{false};

  Mutex mutex_;
  CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status deferred_ ABSL_GUARDED_BY(mutex_);  // becomes the failure when what is under way is done
  std::optional<Current> current_ ABSL_GUARDED_BY(mutex_);
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time moved_ ABSL_GUARDED_BY(mutex_) = SteadyNow();  // when current_ or done_ changed last
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  std::vector<Signature> recent_
      ABSL_GUARDED_BY(mutex_);  // what this member began, by number modulo the size
  absl::Duration period_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);  // of the last collective
  absl::Time next_report_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time grace_end_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();

  std::thread thread_;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_MEMBERSHIP_H_
