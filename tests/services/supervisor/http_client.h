// A connection to an HTTP server that sends exactly what a test says.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_HTTP_CLIENT_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {

struct HttpAnswer {
  // 0: the server has closed the connection without one.
  int status = 0;
  std::string body;
};

// Not thread-safe. Waiting ends after half a minute.
class HttpClient {
 public:
  explicit HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit = {30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() { close(fd_); }

  bool connected() const { return connected_; }

  // False: the server has closed the connection.
  bool Send(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t result = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (result <= 0) return false;
      sent += static_cast<size_t>(result);
    }
    return true;
  }
  void Request(const std::string& method, const std::string& path, const std::string& body = "") {
    Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: test\r\nContent-Length: ", body.size(),
                      "\r\n\r\n", body));
  }

  HttpAnswer Answer() {
    std::string data;
    size_t head = std::string::npos;
    while ((head = data.find("\r\n\r\n")) == std::string::npos) {
      if (!Receive(&data)) return {};
    }
    HttpAnswer answer;
    (void)absl::SimpleAtoi(data.substr(9, 3), &answer.status);
    size_t length = 0;
    const size_t field = data.find("Content-Length: ");
    if (field < head)
      (void)absl::SimpleAtoi(data.substr(field + 16, data.find("\r\n", field) - field - 16), &length);
    answer.body = data.substr(head + 4);
    while (answer.body.size() < length && Receive(&answer.body)) {
    }
    return answer;
  }

 private:
  bool Receive(std::string* data) {
    char part[4096];
    const ssize_t size = recv(fd_, part, sizeof(part), 0);
    if (size <= 0) return false;
    data->append(part, static_cast<size_t>(size));
    return true;
  }

  const int fd_;
  bool connected_ = false;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_HTTP_CLIENT_H_
