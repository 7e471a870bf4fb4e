// One call to S3, or to what speaks as it does: signed, and tried again where that may help. Inside libs/objectstore only.
//
// All calls that are made here may be carried out twice. What they are tried again for, until `patience` has passed and with pauses
// that double and differ at random: UNAVAILABLE, INTERNAL, DEADLINE_EXCEEDED, throttling, and DATA_LOSS (bytes that got damaged
// on the way). Where credentials are refused, new ones are asked for once.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_S3_CALLER_H_
#define ADAPTDL_LIBS_OBJECTSTORE_S3_CALLER_H_

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/aws/query_api.h"
#include "libs/objectstore/s3_store.h"

namespace adaptdl::objectstore {

struct S3Call {
  std::string method = "GET";
  // Empty: the bucket itself.
  std::string key = {};
  std::vector<std::pair<std::string, std::string>> query = {};
  // "Name: value" each.
  std::vector<std::string> headers = {};
  std::string body = {};
  // Bytes of an answer of success.
  size_t max_answer_bytes = size_t{8} << 20;
  // Looks at an answer of success: an error is one of the call, and tried again as such.
  std::function<absl::Status(const HttpResponse& answer)> check = nullptr;
};

class S3Caller {
 public:
  S3Caller(S3Options options, aws::World world);

  absl::StatusOr<HttpResponse> Call(const S3Call& call, const std::stop_token& stop) const;

  const S3Options& options() const { return options_; }

 private:
  std::string UrlOf(const S3Call& call) const;
  absl::StatusOr<HttpResponse> Try(const S3Call& call, const aws::Credentials& credentials,
                                   const std::stop_token& stop) const;
  absl::Status ErrorOf(const HttpResponse& answer) const;

  const S3Options options_;
  const aws::World world_;
  // With the bucket, in whichever way; without a slash at its end.
  const std::string base_url_;
};

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_S3_CALLER_H_
