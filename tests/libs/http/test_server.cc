#include "tests/libs/http/test_server.h"

#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "libs/http/no_sigpipe.h"

namespace adaptdl {
namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  ADD_FAILURE() << "the test's server can't " << what;
  std::abort();
}

template <typename T, typename Read>
std::shared_ptr<T> FromPem(const std::string& pem, Read read, void (*free)(T*)) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  std::shared_ptr<T> object(read(bio, nullptr, nullptr, nullptr), free);
  BIO_free(bio);
  Check(object != nullptr, "read PEM");
  return object;
}

std::shared_ptr<void> MakeContext(const TestServerTls& tls) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  const auto certificate = FromPem<X509>(tls.certificate_pem, PEM_read_bio_X509, X509_free);
  const auto key = FromPem<EVP_PKEY>(tls.key_pem, PEM_read_bio_PrivateKey, EVP_PKEY_free);
  Check(SSL_CTX_use_certificate(context.get(), certificate.get()) == 1, "use its certificate");
  Check(SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1, "use its key");
  if (!tls.client_ca_pem.empty()) {
    const auto ca = FromPem<X509>(tls.client_ca_pem, PEM_read_bio_X509, X509_free);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    const unsigned char id[] = "test";
    SSL_CTX_set_session_id_context(context.get(), id, sizeof(id));
  }
  return context;
}

std::string Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

}  // namespace

std::string ServedRequest::Path() const { return target.substr(0, target.find('?')); }

std::string ServedRequest::Argument(absl::string_view name) const {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  for (const absl::string_view argument : absl::StrSplit(parts.second, '&')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    if (pair.first == name) return Unescape(pair.second);
  }
  return "";
}

class TestServer::Connection final : public Exchange {
 public:
  Connection(int fd, SSL_CTX* context) : fd_(fd) {
    if (context == nullptr) return;
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, fd);
    open_ = SSL_accept(ssl_) == 1;
  }
  ~Connection() override { SSL_free(ssl_); }

  const ServedRequest& request() const override { return request_; }
  std::string peer() const override {
    X509* certificate = ssl_ == nullptr ? nullptr : SSL_get0_peer_certificate(ssl_);
    char name[256] = {};
    if (certificate == nullptr) return "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
    return name;
  }

  // Reads the next one. False: there is none.
  bool Next() {
    size_t end;
    while (open_ && (end = received_.find("\r\n\r\n")) == std::string::npos) open_ = ReadMore();
    if (!open_) return false;
    request_ = {};
    const std::string head = received_.substr(0, end);
    const std::vector<std::string> lines = absl::StrSplit(head, "\r\n");
    const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
    Check(words.size() == 3, "read the request line");
    request_.method = words[0];
    request_.target = words[1];
    for (size_t i = 1; i < lines.size(); ++i) {
      const std::pair<std::string, std::string> header = absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
      request_.headers[absl::AsciiStrToLower(header.first)] = header.second;
    }
    received_.erase(0, end + 4);
    size_t length = 0;
    if (request_.headers.count("content-length") != 0) {
      Check(absl::SimpleAtoi(request_.headers["content-length"], &length), "read a length");
    }
    while (open_ && received_.size() < length) open_ = ReadMore();
    request_.body = received_.substr(0, length);
    received_.erase(0, length);
    return open_;
  }

  void Answer(int status, absl::string_view body, const std::vector<std::string>& headers) override {
    std::string answer = absl::StrCat("HTTP/1.1 ", status, " x\r\nContent-Length: ", body.size(), "\r\n");
    for (const std::string& header : headers) absl::StrAppend(&answer, header, "\r\n");
    Write(absl::StrCat(answer, "\r\n", body));
  }
  void Begin(int status) override {
    Write(absl::StrCat("HTTP/1.1 ", status, " x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  }
  bool Part(absl::string_view part) override {
    return Write(absl::StrCat(absl::Hex(part.size()), "\r\n", part, "\r\n"));
  }
  void End() override { Write("0\r\n\r\n"); }
  void Cut() override { open_ = false; }
  void AwaitClosed() override {
    while (ReadMore()) {
    }
    open_ = false;
  }

 private:
  bool ReadMore() {
    char buffer[1 << 14];
    const ssize_t count = ssl_ != nullptr ? SSL_read(ssl_, buffer, sizeof(buffer))  //
                                          : recv(fd_, buffer, sizeof(buffer), 0);
    if (count > 0) received_.append(buffer, count);
    return count > 0;
  }
  bool Write(absl::string_view data) {
    while (open_ && !data.empty()) {
      const ssize_t count = ssl_ != nullptr ? SSL_write(ssl_, data.data(), static_cast<int>(data.size()))
                                            : send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      open_ = count > 0;
      if (open_) data.remove_prefix(count);
    }
    return open_;
  }

  const int fd_;
  SSL* ssl_ = nullptr;
  bool open_ = true;
  std::string received_;
  ServedRequest request_;
};

TestServer::TestServer(Handler handler, const TestServerTls* tls, int port) : handler_(std::move(handler)) {
  if (tls != nullptr) tls_ = MakeContext(*tls);
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  Check(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  Check(listen(listener_, 64) == 0, "listen");
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

TestServer::~TestServer() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  }
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    MutexLock lock(&mutex_);
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  close(listener_);
}

std::string TestServer::url() const {
  return absl::StrCat(tls_ == nullptr ? "http" : "https", "://127.0.0.1:", port_);
}

int TestServer::connections() {
  MutexLock lock(&mutex_);
  return connections_;
}

void TestServer::Accept() {
  while (true) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    MutexLock lock(&mutex_);
    if (fd < 0) return;
    if (ending_) {
      close(fd);
      continue;
    }
    ++connections_;
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void TestServer::Serve(int fd) {
  const NoSigpipe guard;
  {
    Connection connection(fd, static_cast<SSL_CTX*>(tls_.get()));
    while (connection.Next()) handler_(connection);
  }
  MutexLock lock(&mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  close(fd);
}

}  // namespace adaptdl
