#include "libs/archive/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "libs/base/file.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::archive {
namespace {

constexpr size_t kDigits = 64;
constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

bool IsDigest(absl::string_view text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

// These calls fail for lack of memory only.
Digester::Digester() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }

Digester::~Digester() { EVP_MD_CTX_free(context_); }

void Digester::Add(absl::string_view bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }

std::string Digester::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_, digest, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

absl::StatusOr<std::string> DigestOfFile(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return ErrnoStatus(errno, path);
  Digester digester;
  std::string buffer(kBufferBytes, '\0');
  while (true) {
    const ssize_t size = read(file.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return ErrnoStatus(errno, path);
    if (size == 0) return digester.Finish();
    digester.Add(absl::string_view(buffer.data(), static_cast<size_t>(size)));
  }
}

}  // namespace adaptdl::archive
