// The verbs of Kubernetes' API on objects of any type.
//
//   Client client(session.get());
//   auto pod = client.Create(Collection(Pods(), "training"), MakePod(), {.field_manager = "adaptdl"}, stop);
//
// Thread-safe; the session outlives it. Every call blocks. Errors as in the README of libs/kube.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_CLIENT_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_CLIENT_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/kube/client/resource_type.h"
#include "libs/kube/client/session.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kube {

// Of all changes.
struct ChangeOptions {
  // Who owns the fields that are written.
  std::string field_manager = {};
  // Everything is checked, and nothing is kept.
  bool dry_run = false;
  // Fields that the server does not know are an error, and not lost without a word.
  bool strict = true;
};

struct ApplyOptions {
  std::string field_manager;
  // Takes fields over from who owns them; without, that is ABORTED.
  bool force = false;
  bool dry_run = false;
};

// What becomes of the objects that the deleted one owns.
enum class Propagation {
  kDefault,     // as its type has it
  kOrphan,      // they stay
  kBackground,  // they go after it
  kForeground,  // it goes after them
};

struct DeleteOptions {
  Propagation propagation = Propagation::kDefault;
  // It is deleted only if it is this one, in this version; else ABORTED. Empty: any.
  std::string uid = {};
  std::string resource_version = {};
  // Nothing: as the object has it. Zero: at once.
  std::optional<absl::Duration> grace_period = std::nullopt;
  bool dry_run = false;
};

// Which objects of a collection.
struct Selection {
  // "app=x,tier!=y". Empty: all.
  std::string labels = {};
  // "spec.nodeName=n1". Empty: all.
  std::string fields = {};
};

struct ListOptions {
  Selection selection = {};
  // Objects a page. 0: all in one.
  int page_size = 500;
};

class Client {
 public:
  explicit Client(Session* session) : session_(*session) {}

  absl::StatusOr<Json> Get(const Target& target, const std::stop_token& stop = {}) const;

  // Hands each object of the collection to `take`, as of one moment; returns the resourceVersion of that, from
  // which a watch goes on. Objects have `apiVersion` and `kind`, which the server leaves out in lists.
  // OUT_OF_RANGE: it took so long that the server forgot the moment; list again, all in one page.
  absl::StatusOr<std::string> List(const Target& collection, const ListOptions& options,
                                   const std::function<void(Json)>& take,
                                   const std::stop_token& stop = {}) const;
  // All at once, for small collections.
  absl::StatusOr<std::vector<Json>> ListAll(const Target& collection, const Selection& selection = {},
                                            const std::stop_token& stop = {}) const;

  // All of these return the object as it is then.
  absl::StatusOr<Json> Create(const Target& collection, const Json& object, const ChangeOptions& options,
                              const std::stop_token& stop = {}) const;
  // Only if the object's resourceVersion is still the one in `object`; else ABORTED. Without one: whatever it is,
  // or INVALID_ARGUMENT, as the type has it.
  absl::StatusOr<Json> Replace(const Target& target, const Json& object, const ChangeOptions& options,
                               const std::stop_token& stop = {}) const;
  // RFC 7386: fields are set, and null takes one away. With metadata.resourceVersion: as Replace.
  absl::StatusOr<Json> MergePatch(const Target& target, const Json& patch, const ChangeOptions& options,
                                  const std::stop_token& stop = {}) const;
  // Server-side apply: the object is made, or has these fields afterwards, and those that this manager had set
  // before and now leaves out are taken away; fields of others stay. `object` has apiVersion and kind.
  absl::StatusOr<Json> Apply(const Target& target, const Json& object, const ApplyOptions& options,
                             const std::stop_token& stop = {}) const;

  // OK: it is gone, or goes when its grace period and finalizers allow it.
  absl::Status Delete(const Target& target, const DeleteOptions& options,
                      const std::stop_token& stop = {}) const;

  Session& session() const { return session_; }

 private:
  absl::StatusOr<Json> Change(const std::string& method, const std::string& content_type,
                              const Target& target, const Json& body, const ChangeOptions& options,
                              const std::stop_token& stop) const;

  Session& session_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_CLIENT_H_
