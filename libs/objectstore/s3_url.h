// Where objects are, as people write it: "s3://BUCKET/PREFIX".
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_S3_URL_H_
#define ADAPTDL_LIBS_OBJECTSTORE_S3_URL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::objectstore {

struct S3Location {
  std::string bucket;
  // Without slashes at its ends. Empty: the whole bucket.
  std::string prefix;

  // The prefix, a slash, and the rest.
  std::string Key(absl::string_view rest) const;
};

// INVALID_ARGUMENT names `field`, the text, and what is wrong with it.
absl::StatusOr<S3Location> ParseS3Url(absl::string_view field, absl::string_view url);

// "https://HOST[:PORT]", or with http. Empty is fine.
absl::Status CheckEndpoint(absl::string_view field, absl::string_view url);

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_S3_URL_H_
