// libarchive's handles, with one owner each, and its errors. For one thread each.

#ifndef ADAPTDL_LIBS_ARCHIVE_TAR_H_
#define ADAPTDL_LIBS_ARCHIVE_TAR_H_

#include <archive.h>
#include <archive_entry.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::archive {

struct ReaderCloser {
  void operator()(::archive* handle) const { archive_read_free(handle); }
};
struct WriterCloser {
  void operator()(::archive* handle) const { archive_write_free(handle); }
};
struct EntryCloser {
  void operator()(::archive_entry* entry) const { archive_entry_free(entry); }
};

using TarReader = std::unique_ptr<::archive, ReaderCloser>;
using TarWriter = std::unique_ptr<::archive, WriterCloser>;
using TarEntry = std::unique_ptr<::archive_entry, EntryCloser>;

// What libarchive says of the last call's failure.
inline std::string TarError(::archive* handle) {
  const char* text = archive_error_string(handle);
  return text == nullptr ? "unknown error" : text;
}

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_TAR_H_
