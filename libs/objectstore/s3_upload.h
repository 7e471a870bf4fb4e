// Writes one object: at once, or in parts if it is large. Inside libs/objectstore only.
//
//   create ──▶ part 1, 2, ... ──▶ complete ──▶ the object is there
//      └───────────┴──(error)───────┴────────▶ abort: no parts stay
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_S3_UPLOAD_H_
#define ADAPTDL_LIBS_OBJECTSTORE_S3_UPLOAD_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/objectstore/object_store.h"
#include "libs/objectstore/s3_caller.h"

namespace adaptdl::objectstore {

absl::Status Upload(const S3Caller& caller, const std::string& key, int64_t size,
                    const ObjectStore::Source& source, const std::stop_token& stop);

// Text within an element.
std::string XmlEscape(absl::string_view text);

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_S3_UPLOAD_H_
