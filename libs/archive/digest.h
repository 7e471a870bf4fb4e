// SHA-256 of archives: the name by which an archive is known. For one thread each.

#ifndef ADAPTDL_LIBS_ARCHIVE_DIGEST_H_
#define ADAPTDL_LIBS_ARCHIVE_DIGEST_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace adaptdl::archive {

// Whether it is 64 lower-case hexadecimal digits.
bool IsDigest(absl::string_view text);

class Digester {
 public:
  Digester();
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  void Add(absl::string_view bytes);
  // Of all that was added. Once.
  std::string Finish();

 private:
  evp_md_ctx_st* const context_;
};

// Of the file's content. Errors of reading it carry the errno's code.
absl::StatusOr<std::string> DigestOfFile(const std::string& path);

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_DIGEST_H_
