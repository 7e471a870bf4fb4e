#include "libs/httpd/certified_server.h"

#include <memory>
#include <string>
#include <utility>

#include "libs/base/file.h"
#include "libs/service/log.h"

namespace adaptdl::httpd {
namespace {

constexpr size_t kMaxCertificateBytes = size_t{1} << 20;
constexpr absl::Duration kLookPeriod = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<CertifiedServer>> CertifiedServer::Start(const HttpServerOptions& options,
                                                                        const CertificateFiles& files,
                                                                        HttpHandler handler) {
  std::unique_ptr<CertifiedServer> server(new CertifiedServer(options, files, std::move(handler)));
  const absl::StatusOr<Certificate> certificate = server->ReadCertificate();
  if (!certificate.ok()) return certificate.status();
  if (const absl::Status status = server->Serve(*certificate); !status.ok()) return status;
  // Its successors listen on the port that this one was given.
  server->options_.listen = server->address();
  return server;
}

absl::StatusOr<CertifiedServer::Certificate> CertifiedServer::ReadCertificate() const {
  absl::StatusOr<std::string> chain = ReadWholeFile(files_.certificate, kMaxCertificateBytes);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::string> key = ReadWholeFile(files_.key, kMaxCertificateBytes);
  if (!key.ok()) return key.status();
  return Certificate{*std::move(chain), *std::move(key)};
}

absl::Status CertifiedServer::Serve(const Certificate& certificate) {
  HttpServerOptions options = options_;
  options.tls_certificate = certificate.chain;
  options.tls_key = certificate.key;
  options.shares_address = true;
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(options, handler_);
  if (!server.ok()) return server.status();
  certificate_ = certificate;
  server_ = *std::move(server);
  return absl::OkStatus();
}

void CertifiedServer::Step(absl::Time now) {
  server_->Step(now);
  if (now < next_look_) return;
  next_look_ = now + kLookPeriod;
  const absl::StatusOr<Certificate> certificate = ReadCertificate();
  absl::Status status = certificate.status();
  if (status.ok() && *certificate == certificate_) return;
  if (status.ok()) status = Serve(*certificate);
  if (status.ok()) {
    log::Info("an HTTPS server has a new certificate",
              {{"file", files_.certificate}, {"address", address()}});
  } else {
    // The two files are replaced one after the other.
    log::Warning("an HTTPS server's certificate can't be read; the one before stays in force",
                 {{"file", files_.certificate}, {"address", address()}, {"error", status.ToString()}});
  }
}

}  // namespace adaptdl::httpd
