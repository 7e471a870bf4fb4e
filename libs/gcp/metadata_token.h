// The token of the service account that a machine of Google Cloud has, which its metadata service gives out.

#ifndef ADAPTDL_LIBS_GCP_METADATA_TOKEN_H_
#define ADAPTDL_LIBS_GCP_METADATA_TOKEN_H_

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "libs/base/clock.h"
#include "libs/gcp/tokens.h"
#include "libs/http/http_client.h"

namespace adaptdl::gcp {

// Where the service is, as Google's own libraries know it: the variable GCE_METADATA_HOST ("host" or "host:port"); empty: the
// machine's own.
std::string MetadataUrl(const std::string& metadata_host);

// UNAUTHENTICATED: this is no machine of Google Cloud, or it has no service account. Thread-safe, if http and clock are.
absl::StatusOr<Token> FetchMetadataToken(const std::string& url, HttpClient* http, const Clock* clock,
                                         const std::stop_token& stop);

}  // namespace adaptdl::gcp

#endif  // ADAPTDL_LIBS_GCP_METADATA_TOKEN_H_
