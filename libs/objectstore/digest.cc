#include "libs/objectstore/digest.h"

#include <openssl/evp.h>

#include <cstdlib>

#include "absl/strings/escaping.h"

namespace adaptdl::objectstore {
namespace {

// Nothing sensible could follow where OpenSSL has no memory.
void CheckDigested(int result) {
  if (result != 1) std::abort();
}

std::string DigestOf(const EVP_MD* kind, absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CheckDigested(EVP_Digest(text.data(), text.size(), digest, &size, kind, nullptr));
  return std::string(reinterpret_cast<const char*>(digest), size);
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CheckDigested(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view part) {
  CheckDigested(EVP_DigestUpdate(state_->context, part.data(), part.size()));
}

std::string Sha256::Hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CheckDigested(EVP_DigestFinal_ex(state_->context, digest, &size));
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string Sha256Base64(absl::string_view text) { return absl::Base64Escape(DigestOf(EVP_sha256(), text)); }

std::string Md5Base64(absl::string_view text) { return absl::Base64Escape(DigestOf(EVP_md5(), text)); }

}  // namespace adaptdl::objectstore
