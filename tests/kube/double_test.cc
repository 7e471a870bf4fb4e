// The client of libs/kube against the double of an API server: that both mean the same by what they say.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/reviews.h"
#include "libs/kube/client/scale.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/leader_election.h"
#include "libs/kube/control/reflector.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"

namespace adaptdl::kube {
namespace {

using ::testing::HasSubstr;

const ResourceType kWidgets = {"example.com", "v1", "widgets", "Widget"};
const ResourceType kCrds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                            "CustomResourceDefinition", false};
const ResourceType kConfigMaps = {"", "v1", "configmaps", "ConfigMap"};
const ChangeOptions kBy = {.field_manager = "test"};

constexpr char kCrd[] = R"({"metadata": {"name": "widgets.example.com"}, "spec": {
  "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
  "versions": [{"name": "v1", "served": true, "storage": true,
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
      "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}}},
      "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}})";

class DoubleTest : public ::testing::Test {
 protected:
  DoubleTest() { EXPECT_TRUE(client_.Create(Collection(kCrds), *ParseJson(kCrd), kBy).ok()); }

  std::unique_ptr<Session> MakeSession() {
    Access access = {.server = server_.url(), .credentials = std::make_unique<NoCredentials>()};
    return Session::Create(std::move(access), {.burst = 100'000}).value();
  }
  static Json Widget(const std::string& name, int size) {
    return {{"apiVersion", "example.com/v1"},
            {"kind", "Widget"},
            {"metadata", {{"name", name}}},
            {"spec", {{"size", size}}}};
  }
  static Target WidgetOf(const std::string& name) { return ObjectOf(kWidgets, {"default", name}); }
  // Does something to the server, or asks it: tests/kube/apiserver/faults.py.
  Json Control(const std::string& method, const std::string& what, const Json& body = Json()) {
    HttpClient http;
    const auto answer = http.Send(
        {.method = method, .url = server_.url() + "/-/" + what, .body = body.is_null() ? "" : Dump(body)});
    EXPECT_TRUE(answer.ok() && answer->status == 200) << answer.status();
    return ParseJson(answer->body).value();
  }
  static bool IsDone(const absl::StatusOr<Json>& found, bool done) {
    return done ? found.ok() : absl::IsNotFound(found.status());
  }
  absl::StatusOr<Json> Make(const std::string& name, int size) {
    return client_.Create(Collection(kWidgets, "default"), Widget(name, size), kBy);
  }

  ApiServerDouble server_;
  const std::unique_ptr<Session> session_ = MakeSession();
  const Client client_{session_.get()};
};

TEST_F(DoubleTest, EveryVerbAndItsErrors) {
  const auto made = Make("w", 1);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(Make("w", 1).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*client_.Get(WidgetOf("w")), *made);
  EXPECT_EQ(client_.Get(WidgetOf("v")).status().code(), absl::StatusCode::kNotFound);

  Json changed = *made;
  changed["spec"]["size"] = 2;
  EXPECT_TRUE(client_.Replace(WidgetOf("w"), changed, kBy).ok());
  EXPECT_EQ(client_.Replace(WidgetOf("w"), changed, kBy).status().code(), absl::StatusCode::kAborted);

  const auto unknown = client_.MergePatch(WidgetOf("w"), {{"spec", {{"nonsense", 1}}}}, kBy);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), HasSubstr("spec.nonsense"));
  EXPECT_EQ(client_.MergePatch(WidgetOf("w"), {{"spec", {{"size", "x"}}}}, kBy).status().code(),
            absl::StatusCode::kInvalidArgument);

  EXPECT_TRUE(client_.MergePatch(WidgetOf("w").Sub("status"), {{"status", {{"size", 1}}}}, kBy).ok());
  EXPECT_EQ(SetScale(client_, WidgetOf("w"), 5, kBy)->wanted, 5);
  EXPECT_EQ(GetScale(client_, WidgetOf("w"))->present, 1);

  EXPECT_EQ(client_.Delete(WidgetOf("w"), {.uid = "another"}).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(
      client_.Delete(WidgetOf("w"), {.propagation = Propagation::kBackground, .uid = UidOf(*made)}).ok());
  EXPECT_EQ(client_.Delete(WidgetOf("w"), {}).code(), absl::StatusCode::kNotFound);
}

TEST_F(DoubleTest, AClientDiesAtAChosenChange) {
  for (const bool done : {false, true}) {
    const std::string last = done ? "done" : "never-done";
    Control("POST", "halt", {{"agent", "dying"}, {"resources", {"widgets"}}, {"after", 1}, {"done", done}});
    EXPECT_TRUE(Make(absl::StrCat("others-", last), 1).ok());
    Access access = {.server = server_.url(), .credentials = std::make_unique<NoCredentials>()};
    const auto session = Session::Create(std::move(access), {.user_agent = "dying"}).value();
    const Client dying(session.get());
    const Target widgets = Collection(kWidgets, "default");
    const auto make = [&](const std::string& name) {
      return std::async(std::launch::async,
                        [&, name] { return dying.Create(widgets, Widget(name, 1), kBy).status(); });
    };
    EXPECT_TRUE(make(absl::StrCat("first-", last)).get().ok());
    auto at_its_end = make(last);
    while (Control("GET", "halt")["at"] != "create widgets") std::this_thread::yield();
    EXPECT_EQ(Control("GET", "halt")["changes"], 2);
    auto too_late = make(absl::StrCat("late-", last));
    EXPECT_TRUE(dying.ListAll(widgets).ok()) << "it may still read";
    while (!IsDone(client_.Get(WidgetOf(last)), done)) std::this_thread::yield();
    Control("DELETE", "halt");
    EXPECT_EQ(at_its_end.get().code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(IsDone(client_.Get(WidgetOf(last)), !done));
    // It came before the client was let be, and was cut, or it came after that.
    const bool came_later = too_late.get().ok();
    EXPECT_TRUE(IsDone(client_.Get(WidgetOf("late-" + last)), came_later));
  }
  EXPECT_EQ(Control("GET", "agents")["dying"]["list widgets"], 2);
}

TEST_F(DoubleTest, FieldsHaveOwners) {
  ASSERT_TRUE(client_.Apply(WidgetOf("w"), Widget("w", 1), {.field_manager = "a"}).ok());
  const auto refused = client_.Apply(WidgetOf("w"), Widget("w", 2), {.field_manager = "b"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(refused.status().message(), HasSubstr("conflict with \"a\": .spec.size"));
  ASSERT_TRUE(client_.Apply(WidgetOf("w"), Widget("w", 2), {.field_manager = "b", .force = true}).ok());
  EXPECT_EQ(GetScale(client_, WidgetOf("w"))->wanted, 2);
}

// Follows the widgets, and waits for what is to be seen.
class Followed {
 public:
  explicit Followed(const Client& client)
      : cache_({.parse = [](const Json& json) {
          return IntegerAt(json, {"spec", "size"});
        }}) {
    cache_.AddHandler([this](const Cache<int64_t>::Change& change) {
      MutexLock lock(&mutex_);
      if (change.after == nullptr) sizes_.erase(change.key.name);
      if (change.after != nullptr) sizes_[change.key.name] = *change.after;
      changed_.SignalAll();
    });
    reflector_ = std::make_unique<Reflector>(&client, Collection(kWidgets),
                                             ReflectorOptions{.page_size = 100}, &cache_);
  }
  ~Followed() { reflector_.reset(); }

  void Await(const std::map<std::string, int64_t>& sizes) {
    MutexLock lock(&mutex_);
    while (sizes_ != sizes) changed_.Wait(&mutex_);
  }
  const Cache<int64_t>& cache() const { return cache_; }

 private:
  Cache<int64_t> cache_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, int64_t> sizes_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Reflector> reflector_;
};

TEST_F(DoubleTest, ACacheFollowsThroughRestartsCutsAndWhatIsForgotten) {
  ASSERT_TRUE(Make("a", 1).ok());
  Followed followed(client_);
  followed.Await({{"a", 1}});
  ASSERT_TRUE(Make("b", 2).ok());
  followed.Await({{"a", 1}, {"b", 2}});

  server_.Stop();
  server_.Start();
  ASSERT_TRUE(SetScale(client_, WidgetOf("a"), 3, kBy).ok());
  followed.Await({{"a", 3}, {"b", 2}});

  Control("POST", "cut");
  ASSERT_TRUE(SetScale(client_, WidgetOf("a"), 4, kBy).ok());
  followed.Await({{"a", 4}, {"b", 2}});

  Control("POST", "compact");
  ASSERT_TRUE(client_.Delete(WidgetOf("b"), {}).ok());
  followed.Await({{"a", 4}});
}

TEST_F(DoubleTest, AThrottledCallIsMadeWhenTheServerSaysSo) {
  Control("POST", "faults",
          {{{"verb", "create"}, {"resource", "widgets"}, {"status", 429}, {"retryAfter", 1}}});
  EXPECT_TRUE(Make("w", 1).ok());
  EXPECT_EQ(Control("GET", "calls")["create widgets"], 2);
}

TEST_F(DoubleTest, AChangeWhoseAnswerIsLostIsFoundOutByItsName) {
  Control("POST", "faults", {{{"verb", "create"}, {"cut", "before"}}});
  EXPECT_EQ(Make("w", 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client_.Get(WidgetOf("w")).status().code(), absl::StatusCode::kNotFound);
  Control("POST", "faults", {{{"verb", "create"}, {"cut", "after"}}});
  EXPECT_EQ(Make("w", 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Make("w", 1).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Control("GET", "calls")["create widgets"], 3);
}

TEST_F(DoubleTest, AReadIsMadeAgain) {
  ASSERT_TRUE(Make("w", 1).ok());
  Control("POST", "faults", {{{"verb", "get"}, {"cut", "after"}}, {{"verb", "get"}, {"status", 500}}});
  EXPECT_TRUE(client_.Get(WidgetOf("w")).ok());
}

TEST_F(DoubleTest, ManyObjectsComeInPages) {
  constexpr int kObjects = 450;
  std::map<std::string, int64_t> expected;
  for (int i = 0; i < kObjects; ++i) {
    ASSERT_TRUE(Make(absl::StrCat("w", i), i).ok());
    expected[absl::StrCat("w", i)] = i;
  }
  Followed followed(client_);
  ASSERT_TRUE(followed.cache().AwaitSynced({}));
  EXPECT_EQ(followed.cache().All().size(), kObjects);
  followed.Await(expected);
}

TEST_F(DoubleTest, DependentsFollowTheirOwner) {
  const auto owner = Make("w", 1);
  const Json dependent = {
      {"metadata",
       {{"name", "d"},
        {"ownerReferences",
         {{{"apiVersion", "example.com/v1"}, {"kind", "Widget"}, {"name", "w"}, {"uid", UidOf(*owner)}}}}}}};
  const auto made = client_.Create(Collection(kConfigMaps, "default"), dependent, kBy);
  ASSERT_TRUE(made.ok()) << made.status();
  std::promise<void> gone;
  std::stop_source stop;
  auto watch = std::async(std::launch::async, [&] {
    return Watch(
        client_, Collection(kConfigMaps, "default"), {.resource_version = ResourceVersionOf(*made)},
        [&](const WatchEvent& event) {
          if (event.kind != WatchEventKind::kDeleted) return;
          EXPECT_EQ(KeyOf(event.object).name, "d");
          stop.request_stop();
        },
        stop.get_token());
  });
  ASSERT_TRUE(client_.Delete(WidgetOf("w"), {}).ok());
  EXPECT_EQ(watch.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(DoubleTest, OneOfTwoLeads) {
  LeaderElectionOptions options = {.lease = {"default", "leader"}, .identity = "a"};
  LeaderElection a(&client_, options);
  options.identity = "b";
  LeaderElection b(&client_, options);
  EXPECT_TRUE(*a.TryAcquire());
  EXPECT_FALSE(*b.TryAcquire());
  EXPECT_TRUE(a.Renew().ok());
  a.Release();
  EXPECT_TRUE(*b.TryAcquire());
  EXPECT_GT(b.term(), a.term());
  EXPECT_FALSE(*a.TryAcquire());
}

// With people: a server that asks who one is.
class ClosedDoubleTest : public ::testing::Test {
 protected:
  ClosedDoubleTest() { Write("secret"); }
  ~ClosedDoubleTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& token) { std::ofstream(folder_ + "/token") << token; }
  std::unique_ptr<Session> MakeSession(TextOrFile token) {
    Access access = {.server = server_.url(),
                     .credentials = std::make_unique<ConfiguredCredentials>(
                         ConfiguredCredentials::Options{.bearer_token = std::move(token)})};
    return Session::Create(std::move(access)).value();
  }
  // A token of the default account, bound to this pod; null: to none.
  std::string TokenFor(const std::string& audience, const Json& pod) {
    Json spec = {{"audiences", {audience}}};
    if (!pod.is_null()) {
      spec["boundObjectRef"] = {{"kind", "Pod"}, {"name", KeyOf(pod).name}, {"uid", UidOf(pod)}};
    }
    const ResourceType accounts = {"", "v1", "serviceaccounts", "ServiceAccount"};
    const auto answer = client_.Create(ObjectOf(accounts, {"default", "default"}).Sub("token"),
                                       {{"spec", spec}}, {.strict = false});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return TextAt(*answer, {"status", "token"});
  }

  static std::string MakeFolder() {
    char folder[] = "/tmp/adaptdl-tokens-XXXXXX";
    return mkdtemp(folder);
  }

  const std::string folder_ = MakeFolder();
  ApiServerDouble server_{"secret,admin,1,system:masters\n"};
  const std::unique_ptr<Session> session_ = MakeSession({.path = folder_ + "/token"});
  const Client client_{session_.get()};
};

TEST_F(ClosedDoubleTest, ARenewedTokenNeedsNoRestart) {
  EXPECT_TRUE(client_.ListAll(Collection(Nodes())).ok());
  Write("outdated");
  EXPECT_EQ(client_.ListAll(Collection(Nodes())).status().code(), absl::StatusCode::kUnauthenticated);
  Write("secret");
  EXPECT_TRUE(client_.ListAll(Collection(Nodes())).ok());
}

TEST_F(ClosedDoubleTest, AnAccountMayDoWhatItsRoleSays) {
  const ResourceType roles = {"rbac.authorization.k8s.io", "v1", "roles", "Role"};
  const ResourceType bindings = {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"};
  const auto account =
      MakeSession({.text = TokenFor("https://kubernetes.default.svc.cluster.local", nullptr)});
  const Client limited(account.get());
  EXPECT_EQ(limited.ListAll(Collection(Pods(), "default")).status().code(),
            absl::StatusCode::kPermissionDenied);

  const Json role = {{"metadata", {{"name", "r"}}},
                     {"rules", {{{"apiGroups", {""}}, {"resources", {"pods"}}, {"verbs", {"list"}}}}}};
  const Json binding = {
      {"metadata", {{"name", "b"}}},
      {"roleRef", {{"kind", "Role"}, {"name", "r"}}},
      {"subjects", {{{"kind", "ServiceAccount"}, {"name", "default"}, {"namespace", "default"}}}}};
  ASSERT_TRUE(client_.Create(Collection(roles, "default"), role, kBy).ok());
  ASSERT_TRUE(client_.Create(Collection(bindings, "default"), binding, kBy).ok());
  EXPECT_TRUE(limited.ListAll(Collection(Pods(), "default")).ok());
  EXPECT_EQ(limited.ListAll(Collection(Pods())).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(limited.ListAll(Collection(Nodes())).status().code(), absl::StatusCode::kPermissionDenied);

  const UserInfo user = {.name = "system:serviceaccount:default:default"};
  EXPECT_TRUE(ReviewAccess(client_, {user, "list", Collection(Pods(), "default")})->allowed);
  EXPECT_FALSE(ReviewAccess(client_, {user, "create", Collection(Pods(), "default")})->allowed);
  EXPECT_EQ(ReviewAccess(limited, {user, "list", Collection(Pods())}).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(ClosedDoubleTest, AReplicaProvesItselfByItsPodsToken) {
  const Json pod = {{"metadata", {{"name", "p"}}},
                    {"spec", {{"containers", {{{"name", "a"}, {"image", "x"}}}}}}};
  const auto made = client_.Create(Collection(Pods(), "default"), pod, kBy);
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string token = TokenFor("adaptdl", *made);
  const auto answer = ReviewToken(client_, token, "adaptdl");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->authenticated) << answer->reason;
  EXPECT_EQ(answer->user.PodUid(), UidOf(*made));
  EXPECT_FALSE(ReviewToken(client_, token, "others")->authenticated);
  // It is for nobody else, the API server included.
  EXPECT_EQ(Client(MakeSession({.text = token}).get()).ListAll(Collection(Pods())).status().code(),
            absl::StatusCode::kUnauthenticated);
  ASSERT_TRUE(client_.Delete(ObjectOf(Pods(), {"default", "p"}), {}).ok());
  EXPECT_FALSE(ReviewToken(client_, token, "adaptdl")->authenticated);
}

}  // namespace
}  // namespace adaptdl::kube
