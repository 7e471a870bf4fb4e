// Checksums of what is read and written.
//
//   Sha256 sum;
//   sum.Update(part);
//   if (sum.Hex() != expected) ...
//
// Not thread-safe; the functions are.

#ifndef ADAPTDL_LIBS_OBJECTSTORE_DIGEST_H_
#define ADAPTDL_LIBS_OBJECTSTORE_DIGEST_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::objectstore {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view part);
  // As lower-case hexadecimal digits. Once, at the end.
  std::string Hex();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// In Base64, as headers have it.
std::string Sha256Base64(absl::string_view text);
std::string Md5Base64(absl::string_view text);

}  // namespace adaptdl::objectstore

#endif  // ADAPTDL_LIBS_OBJECTSTORE_DIGEST_H_
