// An HTTPS server that goes by its certificate's files: when they change, a server with the new ones takes its place on the
// same port.
//
// Thread-safe; Step() is called by one thread.

#ifndef ADAPTDL_LIBS_HTTPD_CERTIFIED_SERVER_H_
#define ADAPTDL_LIBS_HTTPD_CERTIFIED_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::httpd {

// Paths of PEM files: the certificate with those up to its authority, and its private key.
struct CertificateFiles {
  std::string certificate;
  std::string key;
};

class CertifiedServer {
 public:
  // Of `options`, what is about TLS and `shares_address` is set here. Errors name the file or the address.
  static absl::StatusOr<std::unique_ptr<CertifiedServer>> Start(const HttpServerOptions& options,
                                                                const CertificateFiles& files,
                                                                HttpHandler handler);

  // "host:port", with the real port.
  std::string address() const { return server_->address(); }

  // Looks after connections, and now and then for a new certificate.
  void Step(absl::Time now);

 private:
  struct Certificate {
    std::string chain;
    std::string key;
    bool operator==(const Certificate&) const = default;
  };

  CertifiedServer(const HttpServerOptions& options, const CertificateFiles& files, HttpHandler handler)
      : options_(options), files_(files), handler_(std::move(handler)) {}

  absl::StatusOr<Certificate> ReadCertificate() const;
  // Takes the place of the one before, if there is one.
  absl::Status Serve(const Certificate& certificate);

  HttpServerOptions options_;
  const CertificateFiles files_;
  const HttpHandler handler_;
  Certificate certificate_;
  absl::Time next_look_ = absl::InfinitePast();
  std::unique_ptr<HttpServer> server_;
};

}  // namespace adaptdl::httpd

#endif  // ADAPTDL_LIBS_HTTPD_CERTIFIED_SERVER_H_
