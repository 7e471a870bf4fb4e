// The static files of web/, which are part of the program. Thread-safe.

#ifndef ADAPTDL_LIBS_DASHBOARD_ASSETS_H_
#define ADAPTDL_LIBS_DASHBOARD_ASSETS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl::dashboard {

struct Asset {
  // As in a URL: "/index.html", and with a sum of all files "/0123456789abcdef/app.js", of which the content never changes.
  std::string path;
  std::string content_type;
  // Of its content.
  std::string etag;
  absl::string_view plain;
  absl::string_view gzipped;
};

const std::vector<Asset>& Assets();

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_ASSETS_H_
