// S3, and what speaks as it does (MinIO, Ceph, others): requests are signed, large objects go up in parts.
//
//   S3Store store({.bucket = "models", .region = "eu-west-1"}, {&http, &credentials, &clock, &pauses, random});
//   store.Put("a/b", size, source, stop);
//
// What is written has a checksum that the server verifies (SHA-256, in the signature and as x-amz-checksum-sha256), each part by
// itself, and a part that fails is sent again; after an error no parts stay. What is read comes in ranges of one content (If-Match),
// each of the length that was asked for, before anybody sees it. Memory: one part, or range, per call.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_S3_STORE_H_
#define ADAPTDL_LIBS_OBJECTSTORE_S3_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/aws/query_api.h"
#include "libs/objectstore/object_store.h"

namespace adaptdl::objectstore {

// Where the bucket's name stands in URLs: as part of the host's name or of the path. kAuto: in the path where there is an
// endpoint, or the bucket's name has a dot.
enum class S3Style { kAuto, kPath, kVirtualHost };

struct S3Options {
  std::string bucket;
  std::string region;
  // URL instead of Amazon's own. Empty: Amazon's.
  std::string endpoint = {};
  S3Style style = S3Style::kAuto;
  // Objects of more bytes than this go up in parts of this size, or larger ones if they would be more than 10000; what is
  // read comes in ranges of this size. S3 takes no parts below 5 MiB.
  int64_t part_bytes = int64_t{16} << 20;
  // Of one try; a part has to be through by then.
  absl::Duration timeout = absl::Minutes(2);
  // Of all tries of one call with the pauses; a try that has begun is not cut short by it.
  absl::Duration patience = absl::Seconds(30);
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration longest_pause = absl::Seconds(10);
  // Objects of one page of a list. 0: as many as the store likes.
  int page_objects = 0;
  // Objects of one list.
  int64_t max_listed = 5'000'000;
};

class S3Caller;

class S3Store final : public ObjectStore {
 public:
  // What `world` points to outlives it.
  S3Store(S3Options options, aws::World world);
  ~S3Store() override;

  absl::StatusOr<ObjectInfo> Head(const std::string& key, const std::stop_token& stop) override;
  absl::Status Get(const ObjectInfo& object, int64_t offset, const Sink& sink,
                   const std::stop_token& stop) override;
  absl::Status Put(const std::string& key, int64_t size, const Source& source,
                   const std::stop_token& stop) override;
  absl::Status List(const std::string& prefix, const Visitor& visit, const std::stop_token& stop) override;
  absl::Status Delete(const std::vector<std::string>& keys, const std::stop_token& stop) override;

 private:
  absl::Status DeleteBatch(const std::vector<std::string>& keys, const std::stop_token& stop);

  const std::unique_ptr<const S3Caller> caller_;
};

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_S3_STORE_H_
