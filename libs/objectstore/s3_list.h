// What a bucket holds, page by page. Inside libs/objectstore only.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_S3_LIST_H_
#define ADAPTDL_LIBS_OBJECTSTORE_S3_LIST_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/objectstore/object_store.h"
#include "libs/objectstore/s3_caller.h"

namespace adaptdl::objectstore {

struct ListPage {
  std::vector<ObjectInfo> objects;
  // Where the next one begins. Empty: this was the last.
  std::string next;
};

// DATA_LOSS: the store answers with what was not asked for. `limit`: most objects of the page; 0: as many as the store likes.
absl::StatusOr<ListPage> ListObjects(const S3Caller& caller, const std::string& prefix,
                                     const std::string& token, int limit, const std::stop_token& stop);

// The object of this key. NOT_FOUND: there is none. Asked for as a list, as the HTTP client waits for the body that an answer to
// HEAD only announces.
absl::StatusOr<ObjectInfo> FindObject(const S3Caller& caller, const std::string& key,
                                      const std::stop_token& stop);

// What names a content comes from outside, and becomes a header of ours.
absl::Status CheckEtag(absl::string_view etag);

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_S3_LIST_H_
