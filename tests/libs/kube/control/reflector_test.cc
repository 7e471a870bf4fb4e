#include "libs/kube/control/reflector.h"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::kube {
namespace {

using ::testing::ElementsAre;

Json Named(const std::string& name, const std::string& version) {
  return {{"metadata", {{"namespace", "n"}, {"name", name}, {"uid", "u"}, {"resourceVersion", version}}}};
}

// Writes down what it is told, and lets others wait for so much of it.
class Notes final : public ObjectSink {
 public:
  void Put(Json object) override { Add("+", object); }
  void Remove(Json object) override { Add("-", object); }
  void Listed(const std::set<ObjectKey>& present) override { Add(absl::StrCat("listed ", present.size())); }

  std::vector<std::string> Await(size_t count) {
    MutexLock lock(&mutex_);
    while (notes_.size() < count) changed_.Wait(&mutex_);
    return notes_;
  }

 private:
  void Add(const std::string& sign, const Json& object) {
    Add(absl::StrCat(sign, KeyOf(object).name, ":", ResourceVersionOf(object)));
  }
  void Add(const std::string& note) {
    MutexLock lock(&mutex_);
    notes_.push_back(note);
    changed_.SignalAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

class ReflectorTest : public ApiTest {
 protected:
  ~ReflectorTest() override { reflector_.reset(); }

  // A list at a version.
  static TestServer::Handler List(const std::string& version, std::vector<Json> objects) {
    return [=](Exchange& exchange) {
      EXPECT_EQ(exchange.request().Argument("watch"), "");
      exchange.Answer(200, Dump({{"metadata", {{"resourceVersion", version}}}, {"items", objects}}));
    };
  }
  // A watch from a version, with this text, which then ends, is cut, or goes on for good.
  enum class Then { kEnd, kCut, kGoOn };
  static TestServer::Handler Watch(const std::string& version, const std::string& text, Then then) {
    return [=](Exchange& exchange) {
      EXPECT_EQ(exchange.request().Argument("watch"), "true");
      EXPECT_EQ(exchange.request().Argument("resourceVersion"), version);
      exchange.Begin(200);
      if (!text.empty()) exchange.Part(text);
      if (then == Then::kEnd) exchange.End();
      if (then == Then::kCut) exchange.Cut();
      if (then == Then::kGoOn) exchange.AwaitClosed();
    };
  }
  static TestServer::Handler Fails(int status) {
    return [=](Exchange& exchange) { exchange.Answer(status, ""); };
  }
  static std::string Event(const std::string& type, const Json& object) {
    return Dump({{"type", type}, {"object", object}}) + "\n";
  }

  void Reflect() {
    reflector_ = std::make_unique<Reflector>(
        client_.get(), Collection(Pods(), "n"),
        ReflectorOptions{.report = [this](const absl::Status& status) { reports_.push_back(status.code()); }},
        &notes_);
  }

  Notes notes_;
  // Written by the reflector's thread; read at its end.
  std::vector<absl::StatusCode> reports_;
  std::unique_ptr<Reflector> reflector_;
};

TEST_F(ReflectorTest, ListsAndThenWatchesFromThere) {
  ServeInTurn({List("5", {Named("a", "3"), Named("b", "4")}),
               Watch("5", Event("ADDED", Named("c", "6")) + Event("DELETED", Named("a", "7")), Then::kGoOn)});
  Reflect();
  EXPECT_THAT(notes_.Await(5), ElementsAre("+a:3", "+b:4", "listed 2", "+c:6", "-a:7"));
}

TEST_F(ReflectorTest, GoesOnWhereAWatchHasEnded) {
  ServeInTurn({List("5", {}), Watch("5", Event("ADDED", Named("a", "6")), Then::kEnd),
               Watch("6", Event("BOOKMARK", Named("", "9")), Then::kEnd),
               Watch("9", Event("ADDED", Named("b", "10")), Then::kGoOn)});
  Reflect();
  EXPECT_THAT(notes_.Await(3), ElementsAre("listed 0", "+a:6", "+b:10"));
  EXPECT_TRUE(pauses_.taken().empty());
}

TEST_F(ReflectorTest, GoesOnWhereAWatchWasCut) {
  ServeInTurn({List("5", {}), Watch("5", Event("ADDED", Named("a", "6")) + "{\"type", Then::kCut),
               Watch("6", Event("ADDED", Named("b", "7")), Then::kGoOn)});
  Reflect();
  EXPECT_THAT(notes_.Await(3), ElementsAre("listed 0", "+a:6", "+b:7"));
  reflector_.reset();
  EXPECT_THAT(reports_, ElementsAre(absl::StatusCode::kUnavailable));
}

TEST_F(ReflectorTest, ListsAgainWhenTheServerForgot) {
  const std::string gone = R"({"type":"ERROR","object":{"kind":"Status","code":410}})"
                           "\n";
  ServeInTurn({List("5", {Named("a", "3")}), Watch("5", gone, Then::kEnd), List("20", {Named("b", "15")}),
               Fails(410), List("30", {Named("b", "15")}), Watch("30", "", Then::kGoOn)});
  Reflect();
  EXPECT_THAT(notes_.Await(6), ElementsAre("+a:3", "listed 1", "+b:15", "listed 1", "+b:15", "listed 1"));
  reflector_.reset();
  EXPECT_THAT(reports_, ElementsAre(absl::StatusCode::kOutOfRange, absl::StatusCode::kOutOfRange));
}

TEST_F(ReflectorTest, WaitsLongerAndLongerForWatchesThatFail) {
  ServeInTurn({List("5", {}), Fails(403), Fails(403), Fails(403),
               Watch("5", Event("ADDED", Named("a", "6")), Then::kGoOn)});
  Reflect();
  EXPECT_THAT(notes_.Await(2), ElementsAre("listed 0", "+a:6"));
  EXPECT_THAT(pauses_.taken(), ElementsAre(absl::Milliseconds(500), absl::Seconds(1), absl::Seconds(2)));
}

TEST_F(ReflectorTest, AWatchThatEndsAtOnceIsNotBegunWithoutPause) {
  ServeInTurn({List("5", {}), Watch("5", "", Then::kEnd), Watch("5", "", Then::kEnd),
               Watch("5", Event("ADDED", Named("a", "6")), Then::kGoOn)});
  Reflect();
  notes_.Await(2);
  EXPECT_THAT(pauses_.taken(), ElementsAre(absl::Milliseconds(500), absl::Seconds(1)));
}

TEST_F(ReflectorTest, AListThatIsTooSlowComesInOnePage) {
  ServeInTurn({[](Exchange& exchange) {
                 EXPECT_EQ(exchange.request().Argument("limit"), "500");
                 exchange.Answer(200, Dump({{"metadata", {{"resourceVersion", "5"}, {"continue", "x"}}},
                                            {"items", {Named("a", "3")}}}));
               },
               Fails(410),
               [](Exchange& exchange) {
                 EXPECT_EQ(exchange.request().Argument("limit"), "");
                 List("6", {Named("b", "4")})(exchange);
               },
               Watch("6", "", Then::kGoOn)});
  Reflect();
  EXPECT_THAT(notes_.Await(3), ElementsAre("+a:3", "+b:4", "listed 1"));
}

TEST_F(ReflectorTest, AServerThatIsAwayIsWaitedFor) {
  options_.patience = absl::ZeroDuration();
  ServeInTurn({List("5", {Named("a", "3")}), Watch("5", "", Then::kGoOn)});
  const int port = server_->port();
  // It restarts, after four tries, and knows the moment still.
  std::promise<void> down;
  std::unique_ptr<TestServer> restarted;
  pauses_.set_during([&, tries = 0]() mutable {
    if (++tries != 4) return;
    down.get_future().wait();
    restarted = std::make_unique<TestServer>(Watch("5", Event("MODIFIED", Named("a", "6")), Then::kGoOn),
                                             nullptr, port);
  });
  Reflect();
  notes_.Await(2);
  server_.reset();
  down.set_value();
  EXPECT_THAT(notes_.Await(3), ElementsAre("+a:3", "listed 1", "+a:6"));
  reflector_.reset();
}

TEST_F(ReflectorTest, EndsInTheMidstOfAWatch) {
  ServeInTurn({List("5", {}), Watch("5", "", Then::kGoOn)});
  Reflect();
  notes_.Await(1);
  reflector_.reset();
  EXPECT_TRUE(reports_.empty());
}

}  // namespace
}  // namespace adaptdl::kube
