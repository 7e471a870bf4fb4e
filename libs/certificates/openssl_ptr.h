// Owners for objects of OpenSSL.

#ifndef ADAPTDL_LIBS_CERTIFICATES_OPENSSL_PTR_H_
#define ADAPTDL_LIBS_CERTIFICATES_OPENSSL_PTR_H_

#include <openssl/evp.h>

#include <memory>

namespace adaptdl::certificates {

// std::unique_ptr<X509, Freed<X509_free>>.
template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

}  // namespace adaptdl::certificates

#endif  // ADAPTDL_LIBS_CERTIFICATES_OPENSSL_PTR_H_
