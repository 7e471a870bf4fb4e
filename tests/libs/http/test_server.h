// An HTTP(S) server of a test, which answers as the test likes: late, in pieces, or by cutting the connection.
//
//   TestServer server([](Exchange& exchange) { exchange.Answer(200, "{}"); });
//   http.Send({.url = server.url() + "/healthz"});
//
// Each connection has a thread, on which the handler is called for one request after the other. Ends all at its
// destruction: what a handler waits for has come by then, or is the exchange's AwaitClosed().

#ifndef ADAPTDL_TESTS_LIBS_HTTP_TEST_SERVER_H_
#define ADAPTDL_TESTS_LIBS_HTTP_TEST_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"

namespace adaptdl {

struct ServedRequest {
  std::string method;
  // Path and query.
  std::string target;
  // By names in lower case.
  std::map<std::string, std::string> headers;
  std::string body;

  // Of the query, with %XX resolved. Empty: it is not there.
  std::string Argument(absl::string_view name) const;
  std::string Path() const;
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const ServedRequest& request() const = 0;
  // The common name in the client's certificate. Empty: it showed none.
  virtual std::string peer() const = 0;

  // A whole answer. `headers`: "Name: value" each.
  virtual void Answer(int status, absl::string_view body, const std::vector<std::string>& headers = {}) = 0;
  // One in parts. False: the client is gone.
  virtual void Begin(int status) = 0;
  virtual bool Part(absl::string_view part) = 0;
  virtual void End() = 0;
  // Closes the connection, in the midst of an answer or before it. What was sent arrives.
  virtual void Cut() = 0;
  // Waits until the client, or the server's end, has closed the connection.
  virtual void AwaitClosed() = 0;
};

struct TestServerTls {
  std::string certificate_pem;
  std::string key_pem;
  // Of clients' certificates, which they may show.
  std::string client_ca_pem;
};

class TestServer {
 public:
  using Handler = std::function<void(Exchange&)>;

  // `tls` null: plain HTTP. `port` 0: any free one.
  explicit TestServer(Handler handler, const TestServerTls* tls = nullptr, int port = 0);
  ~TestServer();

  // "https://127.0.0.1:PORT".
  std::string url() const;
  int port() const { return port_; }
  // How many connections there were.
  int connections();

 private:
  class Connection;

  void Accept();
  void Serve(int fd);

  const Handler handler_;
  std::shared_ptr<void> tls_;  // an SSL_CTX
  int listener_ = -1;
  int port_ = 0;
  Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  int connections_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_TESTS_LIBS_HTTP_TEST_SERVER_H_
