// Two ends of a connection in memory, as OpenSSL's BIO_new_bio_pair() makes them: what is written to one is read from the
// other. That one holds 17 KiB for each direction all the time; this one holds what is on its way, and nothing when
// nothing is, as between two heartbeats.
//
// Like OpenSSL's, both ends belong to one thread at a time, and each is freed by itself.

#ifndef ADAPTDL_LIBS_SERVICE_BIO_PAIR_H_
#define ADAPTDL_LIBS_SERVICE_BIO_PAIR_H_

#include <cstddef>

#include "openssl/bio.h"

namespace adaptdl::service {

// Bytes that may be on their way in one direction: a record of TLS, as with OpenSSL's. More have to be written later.
inline constexpr size_t kBioPairBytes = size_t{17} * 1024;

// Makes both ends, which are the caller's. False, and nothing is made: OpenSSL has no memory.
bool MakeBioPair(BIO** one, BIO** other);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_BIO_PAIR_H_
