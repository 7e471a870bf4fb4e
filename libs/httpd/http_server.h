// A small HTTP/1.1 server, with or without TLS, whose requests may wait for their answer as long as they like: one thread serves
// all connections, and a waiting one costs a socket and a few kilobytes.
//
//   auto server = HttpServer::Start(options, [](const HttpRequest& request, std::shared_ptr<HttpExchange>
//   exchange) {
//     if (request.path == "/healthz") exchange->Answer({200, "text/plain", "ok\n"});
//     else waiting.push_back(exchange);   // Answer() it later, from any thread
//   });
//
// An answer may also be a stream, as of server-sent events, which whoever has the stream writes to for as long as it likes.
//
// Thread-safe. The handler is called by the server's thread and must not wait.

#ifndef ADAPTDL_LIBS_HTTPD_HTTP_SERVER_H_
#define ADAPTDL_LIBS_HTTPD_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/service/strangers.h"

namespace adaptdl::httpd {

struct HttpRequest {
  // "GET", "PUT", ...
  std::string method;
  // Without the query. %XX stays as it is: nothing that is served needs it.
  std::string path;
  // The last one counts where a name comes twice.
  std::map<std::string, std::string> query;
  std::string body;
  // The IP address that it comes from. Empty: not known.
  std::string peer = {};
  // By names in lower case; the last one counts where a name comes twice.
  std::map<std::string, std::string> headers = {};
};

struct HttpResponse {
  int status = 200;
  std::string content_type;
  std::string body;
  // Further header fields.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The body of an answer that comes bit by bit. When the last reference to it goes, it ends.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // False: the reader has gone, or was too slow and is sent away, or the server ends. Of a reader that has gone this is
  // noticed by writing: whoever has nothing to say writes something now and then.
  virtual bool Write(std::string data) = 0;
};

// A request that waits for its answer.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  // The first answer counts. Also after the server's end, when it does nothing.
  virtual void Answer(HttpResponse response) = 0;
  // Answers with a stream, whose head is `head`; its body is the first that is sent. Null: there is an answer.
  virtual std::unique_ptr<HttpStream> Stream(HttpResponse head) = 0;
};

using HttpHandler = std::function<void(const HttpRequest& request, std::shared_ptr<HttpExchange> exchange)>;

struct HttpServerOptions {
  // "host:port"; port 0: any free one.
  std::string listen;
  // For errors: where `listen` comes from.
  std::string flag = "--listen";
  // Texts in PEM: the server's certificate, with those up to its authority, and the private key. Empty: no TLS.
  std::string tls_certificate = {};
  std::string tls_key = {};
  // Whether another server of this process may listen on the same address, as its successor does for a moment.
  bool shares_address = false;
  // More are not accepted until others end; of one address, this many.
  int max_connections = 8192;
  int max_connections_per_address = 4096;
  // Of these, the ones that have not sent a whole request, and how long they may take for it.
  service::StrangerOptions strangers = {.patience = absl::Seconds(10), .most = 1024};
  // Larger requests are answered 413.
  size_t max_body_bytes = size_t{64} << 10;
  // Readers of streams that are behind by more are sent away.
  size_t max_unread_bytes = size_t{8} << 20;
  // Connections that send nothing, or take nothing, for so long are closed; waiting for an answer does not
  // count.
  absl::Duration idle_timeout = absl::Seconds(30);
};

class HttpServer {
 public:
  // UNAVAILABLE: the address can't be bound. INVALID_ARGUMENT: it is no "host:port", or the certificate and the
  // key are none.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                           HttpHandler handler);
  // Answers 503 to whoever waits. The handler is not called any more.
  virtual ~HttpServer() = default;

  // "host:port", with the real port.
  virtual std::string address() const = 0;
  virtual int port() const = 0;

  // Closes connections that take too long for a request. Called now and then.
  virtual void Step(absl::Time now) = 0;
};

}  // namespace adaptdl::httpd

#endif  // ADAPTDL_LIBS_HTTPD_HTTP_SERVER_H_
