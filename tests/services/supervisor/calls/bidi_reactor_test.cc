#include "services/supervisor/calls/bidi_reactor.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;

// Messages are numbers, which travel as the node's identity; answers are texts.
v1::ConnectRequest Message(int number) {
  v1::ConnectRequest message;
  message.mutable_hello()->set_session_id(number);
  return message;
}
int NumberOf(const v1::ConnectRequest& message) { return static_cast<int>(message.hello().session_id()); }

// What a stream does with its messages.
struct Behaviour {
  // Whether the message is answered as it comes.
  std::function<bool(int number, bool handling)> take = [](int, bool) { return false; };
  std::function<bool(int newer, int older)> supersedes = [](int, int) { return false; };
  std::function<bool(int number)> needs_state = [](int) { return true; };
  std::function<absl::Status(int number)> handle = [](int) { return absl::OkStatus(); };
  std::function<void()> answer = [] {};
  size_t room = 100;
};

class Stream final : public BidiReactor<v1::ConnectRequest, v1::ConnectResponse> {
 public:
  Stream(const Core* core, const Lanes* lanes, service::Strangers* strangers, Behaviour* behaviour,
         absl::Notification* over)
      : BidiReactor("Connect", core, lanes, strangers), behaviour_(behaviour), over_(over) {}
  ~Stream() override { over_->Notify(); }

 protected:
  void Arrived(Message message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int number = NumberOf(message.request);
    if (behaviour_->take(number, handling())) {
      texts_.push_back(absl::StrCat("took ", number));
      return;
    }
    std::erase_if(waiting_, [&](const Message& older) {
      return behaviour_->supersedes(number, NumberOf(older.request));
    });
    waiting_.push_back(std::move(message));
  }
  bool has_room() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.size() < behaviour_->room;
  }
  bool NeedsState(const v1::ConnectRequest& request) const override {
    return behaviour_->needs_state(NumberOf(request));
  }
  absl::Status Handle(const Message& message) override {
    const int number = NumberOf(message.request);
    const absl::Status status = behaviour_->handle(number);
    {
      MutexLock lock(&mutex_);
      texts_.push_back(absl::StrCat("handled ", number));
    }
    Write();
    return status;
  }
  bool NextResponse(v1::ConnectResponse* response) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (texts_.empty()) return false;
    behaviour_->answer();
    response->mutable_acknowledge()->set_replica_id(texts_.front());
    texts_.pop_front();
    return true;
  }
  void DropResponses() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { texts_.clear(); }

 private:
  Behaviour* const behaviour_;
  absl::Notification* const over_;
  std::deque<std::string> texts_ ABSL_GUARDED_BY(mutex_);
};

// One stream over a real connection.
class BidiReactorTest : public ::testing::Test, public v1::NodeService::CallbackService {
 protected:
  ~BidiReactorTest() override { Stop(); }

  void Open() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    stub_ = v1::NodeService::NewStub(server_->InProcessChannel({}));
    call_ = stub_->Connect(&context_);
    opened_.WaitForNotification();
  }
  void Stop() {
    if (server_ == nullptr) return;
    context_.TryCancel();
    call_ = nullptr;
    over_.WaitForNotification();
    server_->Shutdown();
    server_ = nullptr;
  }

  grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* Connect(
      grpc::CallbackServerContext* /*context*/) override {
    auto stream = std::make_shared<Stream>(&core_, &lanes_, &strangers_, &behaviour_, &over_);
    stream->Begin("host");
    stream_ = stream;
    opened_.Notify();
    return stream.get();
  }

  void Send(int number) { EXPECT_TRUE(call_->Write(Message(number))); }
  std::string Read() {
    v1::ConnectResponse response;
    return call_->Read(&response) ? response.acknowledge().replica_id() : "the end";
  }
  // All that is left, and how it ended.
  grpc::Status End(std::vector<std::string>* texts = nullptr) {
    v1::ConnectResponse response;
    while (call_->Read(&response)) {
      if (texts != nullptr) texts->push_back(response.acknowledge().replica_id());
    }
    return call_->Finish();
  }

  Invariants invariants_;
  absl::Notification disk_;
  std::unique_ptr<GroupCommit> durability_ = std::make_unique<GroupCommit>(nullptr, nullptr);
  Executor executor_{4, 4, &invariants_};
  Lanes lanes_ = {&executor_, &executor_, durability_.get()};
  ManualClock clock_;
  Core core_{{.clock = &clock_}, absl::Hours(1)};
  service::Strangers strangers_{service::StrangerOptions()};
  Behaviour behaviour_;
  absl::Notification opened_;
  absl::Notification over_;
  std::weak_ptr<Stream> stream_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::NodeService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>> call_;
};

TEST_F(BidiReactorTest, DealsWithOneMessageAfterTheOtherAndThenEnds) {
  Mutex mutex;
  int at_work = 0;
  std::vector<int> handled;
  behaviour_.handle = [&](int number) {
    {
      MutexLock lock(&mutex);
      EXPECT_EQ(++at_work, 1);
    }
    MutexLock lock(&mutex);
    handled.push_back(number);
    --at_work;
    return absl::OkStatus();
  };
  Open();
  std::vector<int> sent;
  for (int i = 0; i < 50; ++i) {
    sent.push_back(i);
    Send(i);
  }
  call_->WritesDone();
  EXPECT_TRUE(End().ok());
  EXPECT_EQ(handled, sent);
}

TEST_F(BidiReactorTest, WhatNeedNotWaitIsAnsweredWhileAnotherMessageIs) {
  absl::Notification begun;
  absl::Notification go_on;
  behaviour_.take = [](int number, bool handling) {
    EXPECT_TRUE(number == 0 || handling);
    return number != 0;
  };
  behaviour_.handle = [&](int) {
    begun.Notify();
    go_on.WaitForNotification();
    return absl::OkStatus();
  };
  Open();
  Send(0);
  begun.WaitForNotification();
  Send(1);
  EXPECT_EQ(Read(), "took 1");
  Send(2);
  EXPECT_EQ(Read(), "took 2");
  go_on.Notify();
  EXPECT_EQ(Read(), "handled 0");
}

TEST_F(BidiReactorTest, WhatIsNotForTheStateIsDealtWithInItsTurnToo) {
  absl::Notification begun;
  absl::Notification go_on;
  behaviour_.needs_state = [](int number) { return number % 2 == 0; };
  behaviour_.handle = [&](int number) {
    if (number == 0) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return absl::OkStatus();
  };
  Open();
  Send(0);
  begun.WaitForNotification();
  for (int number = 1; number < 6; ++number) Send(number);
  go_on.Notify();
  for (int number = 0; number < 6; ++number) EXPECT_EQ(Read(), absl::StrCat("handled ", number));
}

TEST_F(BidiReactorTest, ANewerMessageMayStandForOnesThatWait) {
  absl::Notification begun;
  absl::Notification go_on;
  absl::Notification last;
  behaviour_.take = [&](int number, bool) {
    if (number == 5) last.Notify();
    return number == 5;
  };
  behaviour_.supersedes = [](int newer, int older) { return newer % 2 == older % 2; };
  behaviour_.handle = [&](int number) {
    if (number == 0) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return absl::OkStatus();
  };
  Open();
  Send(0);
  begun.WaitForNotification();
  for (int number = 1; number <= 5; ++number) Send(number);
  last.WaitForNotification();
  EXPECT_EQ(Read(), "took 5");
  go_on.Notify();
  EXPECT_EQ(Read(), "handled 0");
  EXPECT_EQ(Read(), "handled 3");
  EXPECT_EQ(Read(), "handled 4");
}

TEST_F(BidiReactorTest, IsNotReadFromWhileSoManyMessagesWait) {
  behaviour_.room = 3;
  int compared = 0;
  int most = 0;
  behaviour_.take = [&](int, bool) {
    compared = 0;
    return false;
  };
  behaviour_.supersedes = [&](int, int) {
    most = std::max(most, ++compared);
    return false;
  };
  Open();
  for (int i = 0; i < 200; ++i) Send(i);
  call_->WritesDone();
  EXPECT_TRUE(End().ok());
  EXPECT_LE(most, 2) << "a message came to three that waited";
}

TEST_F(BidiReactorTest, WhoeverIsRefusedIsSentAwayWhenThatIsDurable) {
  absl::Notification syncing;
  durability_ = std::make_unique<GroupCommit>(
      [&] {
        syncing.Notify();
        disk_.WaitForNotification();
        return absl::OkStatus();
      },
      nullptr);
  lanes_.durability = durability_.get();
  std::atomic<bool> durable = false;
  behaviour_.take = [](int number, bool) { return number == 2; };
  behaviour_.handle = [&](int number) -> absl::Status {
    durability_->Committed();
    return absl::NotFoundError(absl::StrCat("no ", number));
  };
  Open();
  Send(1);
  EXPECT_EQ(Read(), "handled 1");
  syncing.WaitForNotification();
  Send(2);
  EXPECT_EQ(Read(), "took 2") << "it is not over yet";
  durable = true;
  disk_.Notify();
  const grpc::Status status = End();
  EXPECT_TRUE(durable);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no 1");
}

// Where a mistake may be, each costs the stream and is counted.
class BidiReactorMistakeTest : public BidiReactorTest {
 protected:
  void ExpectCost() {
    std::vector<std::string> broken;
    invariants_.SetOnBroken([&](const std::string& where) { broken.push_back(where); });
    Open();
    Send(1);
    EXPECT_EQ(End().error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_THAT(broken, ElementsAre("Connect"));
  }
};

TEST_F(BidiReactorMistakeTest, WhenAMessageComes) {
  behaviour_.take = [](int, bool) -> bool { throw std::out_of_range("no such thing"); };
  ExpectCost();
}
TEST_F(BidiReactorMistakeTest, WhenAMessageIsDealtWith) {
  behaviour_.handle = [](int) -> absl::Status { throw std::out_of_range("no such thing"); };
  ExpectCost();
}
TEST_F(BidiReactorMistakeTest, WhenItIsAnswered) {
  behaviour_.answer = [] { throw std::out_of_range("no such thing"); };
  ExpectCost();
}

TEST_F(BidiReactorTest, EndsOnceAfterTheMessageThatItIsAt) {
  absl::Notification begun;
  absl::Notification go_on;
  bool done = false;
  behaviour_.handle = [&](int) {
    begun.Notify();
    go_on.WaitForNotification();
    done = true;
    return absl::OkStatus();
  };
  Open();
  Send(1);
  begun.WaitForNotification();
  {
    const std::shared_ptr<Stream> stream = stream_.lock();
    ASSERT_NE(stream, nullptr);
    stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stops"));
    stream->End(grpc::Status(grpc::StatusCode::ABORTED, "too late"));
    EXPECT_FALSE(over_.HasBeenNotified());
  }
  go_on.Notify();
  std::vector<std::string> texts;
  const grpc::Status status = End(&texts);
  EXPECT_TRUE(done);
  EXPECT_TRUE(texts.empty()) << "nothing is sent any more";
  EXPECT_EQ(status.error_message(), "the server stops");
  Stop();
  EXPECT_TRUE(stream_.expired());
}

TEST_F(BidiReactorTest, IsAStrangerUntilItsFirstMessage) {
  behaviour_.take = [](int, bool) { return true; };
  Open();
  EXPECT_EQ(strangers_.size(), 1u);
  Send(1);
  EXPECT_EQ(Read(), "took 1");
  EXPECT_EQ(strangers_.size(), 0u);
}

}  // namespace
}  // namespace adaptdl::supervisor
