// A bucket of objects: bytes by their keys, which are written whole.
//
// Errors of all calls: NOT_FOUND (no such object, or bucket), PERMISSION_DENIED, UNAUTHENTICATED, UNAVAILABLE and
// DEADLINE_EXCEEDED (tried again for a while already), DATA_LOSS (what came is not what was asked for), FAILED_PRECONDITION (the
// object was replaced meanwhile), OUT_OF_RANGE (more than anybody has meant), INVALID_ARGUMENT (the key or the settings),
// CANCELLED (a stop was requested).
//
// All implementations are thread-safe.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_OBJECT_STORE_H_
#define ADAPTDL_LIBS_OBJECTSTORE_OBJECT_STORE_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::objectstore {

struct ObjectInfo {
  std::string key = {};
  int64_t size = 0;
  // Names this content of the object; as the store writes it, with quotes if it has some.
  std::string etag = {};

  friend bool operator==(const ObjectInfo&, const ObjectInfo&) = default;
};

class ObjectStore {
 public:
  // Takes a part of an object, one after the other. An error ends the call with it.
  using Sink = std::function<absl::Status(absl::string_view part)>;
  // Gives `length` bytes from `offset` on: exactly so many, or an error.
  using Source = std::function<absl::StatusOr<std::string>(int64_t offset, int64_t length)>;
  // Takes an object of a list. An error ends the call with it.
  using Visitor = std::function<absl::Status(const ObjectInfo& object)>;

  virtual ~ObjectStore() = default;

  virtual absl::StatusOr<ObjectInfo> Head(const std::string& key, const std::stop_token& stop) = 0;

  // Reads from `offset` to the end of this content of the object, as Head() or List() told of it. What comes before an error is
  // right: a later call may go on behind it.
  virtual absl::Status Get(const ObjectInfo& object, int64_t offset, const Sink& sink,
                           const std::stop_token& stop) = 0;

  // Writes an object, which is seen whole or not at all. The source may be asked for the same part again.
  virtual absl::Status Put(const std::string& key, int64_t size, const Source& source,
                           const std::stop_token& stop) = 0;

  // All objects whose keys begin so, in order of their bytes.
  virtual absl::Status List(const std::string& prefix, const Visitor& visit, const std::stop_token& stop) = 0;

  // Those that are not there are none the worse for it.
  virtual absl::Status Delete(const std::vector<std::string>& keys, const std::stop_token& stop) = 0;
};

// Of at most 1024 bytes, UTF-8, without control characters, and with no part between slashes that is "", "." or "..": such
// a key is the same object whoever looks at the URL, and a path below a folder.
absl::Status CheckKey(absl::string_view key);

// The whole object. OUT_OF_RANGE: it is larger.
absl::StatusOr<std::string> ReadObject(ObjectStore& store, const ObjectInfo& object, int64_t max_bytes,
                                       const std::stop_token& stop);

// From memory.
absl::Status WriteObject(ObjectStore& store, const std::string& key, absl::string_view content,
                         const std::stop_token& stop);

// All objects whose keys begin so.
absl::Status DeletePrefix(ObjectStore& store, const std::string& prefix, const std::stop_token& stop);

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_OBJECT_STORE_H_
