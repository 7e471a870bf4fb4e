// One call at a time over libcurl. Inside libs/http only.
//
// A call is an "easy" transfer in a "multi" handle of its own: unlike a plain easy call, that one can be woken
// from another thread at any moment. The handles, and with them the connection, are used for the next call.
//
// Thread-safety: not thread-safe, but for the stop request.

#ifndef ADAPTDL_LIBS_HTTP_CURL_CONNECTION_H_
#define ADAPTDL_LIBS_HTTP_CURL_CONNECTION_H_

#include <curl/curl.h>

#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/http/http_client.h"

namespace adaptdl {

class CurlConnection {
 public:
  // The options outlive it.
  explicit CurlConnection(const HttpClientOptions& options);
  ~CurlConnection();
  CurlConnection(const CurlConnection&) = delete;
  CurlConnection& operator=(const CurlConnection&) = delete;

  // `sink`: for bodies of answers of success; null: they are in the answer.
  absl::StatusOr<HttpResponse> Run(const HttpRequest& request, const HttpClient::Sink* sink,
                                   const std::stop_token& stop);

 private:
  struct Call;
  template <auto free>
  struct Freed {
    template <typename T>
    void operator()(T* object) const {
      free(object);
    }
  };
  using List = std::unique_ptr<curl_slist, Freed<curl_slist_free_all>>;

  static size_t OnBody(char* data, size_t size, size_t count, void* call);
  static size_t OnHeader(char* data, size_t size, size_t count, void* call);
  static size_t OnUnsent(char* buffer, size_t size, size_t count, void* call);
  static int OnSocket(void* options, curl_socket_t socket, curlsocktype purpose);

  void SetUp(const HttpRequest& request, Call* call);
  void SetUpTls(const HttpTls& tls);
  // The result of the transfer, or CANCELLED.
  absl::Status Transfer(const std::stop_token& stop, Call* call);
  absl::Status ErrorOf(CURLcode code, const Call& call);

  const HttpClientOptions& options_;
  // Owns the connections.
  std::unique_ptr<CURLM, Freed<curl_multi_cleanup>> multi_;
  std::unique_ptr<CURL, Freed<curl_easy_cleanup>> easy_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_HTTP_CURL_CONNECTION_H_
