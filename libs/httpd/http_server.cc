#include "libs/httpd/http_server.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/mutex.h"
#include "libs/service/listen_address.h"
#include "libs/service/log.h"

namespace adaptdl::httpd {
namespace {

// What one connection may use for the headers of a request; longer ones are refused by the library (414,
// 431).
constexpr size_t kConnectionMemory = size_t{8} << 10;
// A sender that goes on so far beyond the limit is not read to its end.
constexpr size_t kMostIgnoredBytes = size_t{16} << 20;
// What is asked of a stream at once.
constexpr size_t kStreamBlockBytes = size_t{16} << 10;
constexpr int kBacklog = 4096;
// TLS 1.2 and later.
constexpr char kTlsVersions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

// The first address of the name that can be bound, listening; -1 if there is none.
int OpenListener(const service::ListenAddress& address, bool shared) {
  absl::string_view host = address.host;
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(std::string(host).c_str(), absl::StrCat(address.port).c_str(), &hints, &found) != 0)
    return -1;
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (shared) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, entry->ai_addr, entry->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) return fd;
    close(fd);
  }
  return -1;
}

// As text, without its port.
std::string HostOf(const sockaddr& address) {
  char host[NI_MAXHOST] = {};
  const socklen_t size = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return getnameinfo(&address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0 ? host : "unknown";
}

// Who a connection is from, without its port. Empty: that is not known.
std::string PeerOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* peer = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (peer == nullptr) return "";
  // A socket for both families has addresses of the older one as "::ffff:10.0.0.1".
  const std::string host = HostOf(*peer->client_addr);
  return std::string(absl::StripPrefix(host, "::ffff:"));
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  // The port is at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

// What clients do wrong is none of our errors.
__attribute__((format(printf, 2, 0))) void LogFromLibrary(void* /*closure*/, const char* format,
                                                          va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof(text), format, arguments);
  log::Debug("http", {{"message", std::string(absl::StripSuffix(text, "\n"))}});
}

size_t LeaveEscaped(void* /*closure*/, MHD_Connection* /*connection*/, char* text) {
  return std::char_traits<char>::length(text);
}

// What a stream and the connection that sends it share.
class Channel {
 public:
  Channel(MHD_Connection* connection, std::string first, size_t limit)
      : connection_(connection), limit_(limit), unread_(std::move(first)) {}

  bool Write(const std::string& data) {
    MutexLock lock(&mutex_);
    if (unread_.size() + data.size() > limit_) broken_ = true;
    if (!broken_ && !ended_) unread_ += data;
    Wake();
    return !broken_ && !ended_;
  }
  void End() {
    MutexLock lock(&mutex_);
    ended_ = true;
    Wake();
  }
  void Leave() {
    MutexLock lock(&mutex_);
    broken_ = true;
    unread_.clear();
  }

  // Called by the server's thread, for the next bytes. With none to send, the connection sleeps until there are.
  static ssize_t Read(void* self, uint64_t /*position*/, char* buffer, size_t size) {
    return (*static_cast<std::shared_ptr<Channel>*>(self))->Take(buffer, size);
  }
  static void Free(void* self) {
    auto* channel = static_cast<std::shared_ptr<Channel>*>(self);
    (*channel)->Leave();
    delete channel;
  }

 private:
  ssize_t Take(char* buffer, size_t size) {
    MutexLock lock(&mutex_);
    if (broken_) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (unread_.empty()) {
      if (ended_) return MHD_CONTENT_READER_END_OF_STREAM;
      asleep_ = true;
      MHD_suspend_connection(connection_);
      return 0;
    }
    const size_t taken = std::min(size, unread_.size());
    unread_.copy(buffer, taken);
    unread_.erase(0, taken);
    return static_cast<ssize_t>(taken);
  }
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(asleep_, false)) MHD_resume_connection(connection_);
  }

  MHD_Connection* const connection_;  // Lives at least as long as it sleeps.
  const size_t limit_;
  Mutex mutex_;
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  std::string unread_ ABSL_GUARDED_BY(mutex_);
};

class ChannelStream final : public HttpStream {
 public:
  explicit ChannelStream(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  ~ChannelStream() override { channel_->End(); }
  bool Write(std::string data) override { return channel_->Write(data); }

 private:
  const std::shared_ptr<Channel> channel_;
};

class Exchange final : public HttpExchange {
 public:
  Exchange(MHD_Connection* connection, size_t max_unread_bytes)
      : connection_(connection), max_unread_bytes_(max_unread_bytes) {}

  void Answer(HttpResponse response) override {
    MutexLock lock(&mutex_);
    if (!answered_) Settle(std::move(response));
  }

  std::unique_ptr<HttpStream> Stream(HttpResponse head) override {
    MutexLock lock(&mutex_);
    if (answered_) return nullptr;
    channel_ = std::make_shared<Channel>(connection_, std::exchange(head.body, ""), max_unread_bytes_);
    auto stream = std::make_unique<ChannelStream>(channel_);
    Settle(std::move(head));
    return stream;
  }

  // The server ends.
  void Close() {
    Answer({503, "text/plain", "the server is shutting down\n"});
    MutexLock lock(&mutex_);
    if (channel_ != nullptr) channel_->End();
  }

  // Called by the server's thread. False: there is an answer.
  bool SuspendUnlessAnswered() {
    MutexLock lock(&mutex_);
    if (answered_) return false;
    suspended_ = true;
    MHD_suspend_connection(connection_);
    return true;
  }
  // There is an answer.
  HttpResponse TakeResponse() {
    MutexLock lock(&mutex_);
    return std::move(response_);
  }
  // Null: the answer is no stream.
  std::shared_ptr<Channel> channel() {
    MutexLock lock(&mutex_);
    return channel_;
  }

 private:
  void Settle(HttpResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    answered_ = true;
    response_ = std::move(response);
    if (std::exchange(suspended_, false)) MHD_resume_connection(connection_);
  }

  MHD_Connection* const connection_;  // Lives at least as long as it is suspended.
  const size_t max_unread_bytes_;
  Mutex mutex_;
  bool suspended_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  HttpResponse response_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Channel> channel_ ABSL_GUARDED_BY(mutex_);
};

// One request, from its headers to the end of its answer. Used by the server's thread only.
struct Pending {
  HttpRequest request;
  size_t ignored_bytes = 0;
  std::shared_ptr<Exchange> exchange;
};

class MicroHttpServer final : public HttpServer {
 public:
  MicroHttpServer(const HttpServerOptions& options, HttpHandler handler)
      : options_(options), handler_(std::move(handler)), strangers_(options.strangers) {}
  ~MicroHttpServer() override;

  absl::Status Start();
  std::string address() const override { return absl::StrCat(host_, ":", port_); }
  int port() const override { return port_; }
  void Step(absl::Time now) override { strangers_.Step(now); }

 private:
  static MHD_Result OnAccess(void* self, MHD_Connection* connection, const char* url, const char* method,
                             const char* /*version*/, const char* data, size_t* data_size, void** state) {
    return static_cast<MicroHttpServer*>(self)->Access(connection, url, method, data, data_size, state);
  }
  static void OnConnection(void* self, MHD_Connection* connection, void** /*context*/,
                           MHD_ConnectionNotificationCode what) {
    auto* server = static_cast<MicroHttpServer*>(self);
    // The library closes the socket after it has told us.
    server->strangers_.Leave(connection);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) server->Expect(connection);
  }
  static void OnCompleted(void* self, MHD_Connection* connection, void** state,
                          MHD_RequestTerminationCode /*how*/) {
    std::unique_ptr<Pending> pending(static_cast<Pending*>(*state));
    *state = nullptr;
    // The connection may be used for another one.
    static_cast<MicroHttpServer*>(self)->Expect(connection);
    if (pending != nullptr) static_cast<MicroHttpServer*>(self)->Forget(pending->exchange);
  }
  static MHD_Result OnArgument(void* query, MHD_ValueKind /*kind*/, const char* key, const char* value) {
    (*static_cast<std::map<std::string, std::string>*>(query))[key] = value == nullptr ? "" : value;
    return MHD_YES;
  }

  static MHD_Result OnHeader(void* headers, MHD_ValueKind /*kind*/, const char* key, const char* value) {
    (*static_cast<std::map<std::string, std::string>*>(headers))[absl::AsciiStrToLower(key)] =
        value == nullptr ? "" : value;
    return MHD_YES;
  }

  MHD_Result Access(MHD_Connection* connection, const char* url, const char* method, const char* data,
                    size_t* data_size, void** state);
  MHD_Result Begin(MHD_Connection* connection, const char* url, const char* method, void** state);
  MHD_Result Dispatch(MHD_Connection* connection, Pending* pending);
  // A request is to come over the connection.
  void Expect(MHD_Connection* connection);
  static MHD_Result Send(MHD_Connection* connection, const HttpResponse& response,
                         const std::shared_ptr<Channel>& channel);
  HttpResponse TooLarge() const;
  // False: the server ends.
  bool Remember(const std::shared_ptr<Exchange>& exchange);
  void Forget(const std::shared_ptr<Exchange>& exchange);

  const HttpServerOptions options_;
  const HttpHandler handler_;
  // Connections without a whole request.
  service::Strangers strangers_;
  std::string host_;
  int port_ = 0;
  MHD_Daemon* daemon_ = nullptr;

  Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<std::shared_ptr<Exchange>> open_ ABSL_GUARDED_BY(mutex_);
};

absl::Status MicroHttpServer::Start() {
  const absl::StatusOr<service::ListenAddress> listen =
      service::ParseListenAddress(options_.flag, options_.listen);
  if (!listen.ok()) return listen.status();
  const int fd = OpenListener(*listen, options_.shares_address);
  if (fd < 0) return service::ListenError(options_.flag, *listen);
  host_ = listen->host;
  port_ = PortOf(fd);
  std::vector<MHD_OptionItem> tls;
  unsigned int how = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
  if (!options_.tls_key.empty()) {
    how |= MHD_USE_TLS;
    tls.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, const_cast<char*>(options_.tls_certificate.c_str())});
    tls.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, const_cast<char*>(options_.tls_key.c_str())});
    tls.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsVersions)});
  }
  tls.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ =
      MHD_start_daemon(how, 0, nullptr, nullptr, OnAccess,
                       this,                                                                              //
                       MHD_OPTION_EXTERNAL_LOGGER, LogFromLibrary, nullptr,                               //
                       MHD_OPTION_LISTEN_SOCKET, fd,                                                      //
                       MHD_OPTION_NOTIFY_COMPLETED, OnCompleted, this,                                    //
                       MHD_OPTION_UNESCAPE_CALLBACK, LeaveEscaped, nullptr,                               //
                       MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned int>(options_.max_connections),  //
                       MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                       static_cast<unsigned int>(options_.max_connections_per_address),  //
                       MHD_OPTION_NOTIFY_CONNECTION, OnConnection, this,                 //
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory,            //
                       MHD_OPTION_CONNECTION_TIMEOUT,
                       static_cast<unsigned int>(absl::ToInt64Seconds(options_.idle_timeout)),  //
                       MHD_OPTION_ARRAY, tls.data(),                                            //
                       MHD_OPTION_END);
  if (daemon_ == nullptr) {
    close(fd);
    if (!options_.tls_key.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot serve HTTPS on ", address(), " (", options_.flag,
                                                     "): look at the certificate and its key"));
    }
    return absl::UnavailableError(absl::StrCat("cannot serve HTTP on ", address(), " (", options_.flag, ")"));
  }
  return absl::OkStatus();
}

MicroHttpServer::~MicroHttpServer() {
  if (daemon_ == nullptr) return;
  const int listener = MHD_quiesce_daemon(daemon_);
  std::unordered_set<std::shared_ptr<Exchange>> open;
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    open = open_;
  }
  // The library does not end connections that are suspended.
  for (const auto& exchange : open) exchange->Close();
  MHD_stop_daemon(daemon_);
  if (listener >= 0) close(listener);
}

void MicroHttpServer::Expect(MHD_Connection* connection) {
  const MHD_ConnectionInfo* socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (socket == nullptr) return;
  strangers_.Leave(connection);
  // The library notices and closes it. It is open until then: whoever is told that it closes leaves first.
  strangers_.Enter(connection, PeerOf(connection),
                   [fd = socket->connect_fd](const absl::Status& /*why*/) { shutdown(fd, SHUT_RDWR); });
}

bool MicroHttpServer::Remember(const std::shared_ptr<Exchange>& exchange) {
  MutexLock lock(&mutex_);
  if (ending_) return false;
  open_.insert(exchange);
  return true;
}

void MicroHttpServer::Forget(const std::shared_ptr<Exchange>& exchange) {
  MutexLock lock(&mutex_);
  open_.erase(exchange);
}

// Called with the headers of a request, then with each part of its body, then at its end, and once more when
// the answer has come if it did not come at once.
MHD_Result MicroHttpServer::Access(MHD_Connection* connection, const char* url, const char* method,
                                   const char* data, size_t* data_size, void** state) {
  if (*state == nullptr) return Begin(connection, url, method, state);
  Pending* pending = static_cast<Pending*>(*state);
  if (*data_size > 0) {
    std::string& body = pending->request.body;
    if (pending->ignored_bytes == 0 && body.size() + *data_size <= options_.max_body_bytes) {
      body.append(data, *data_size);
    } else {
      pending->ignored_bytes += *data_size;
    }
    *data_size = 0;
    return pending->ignored_bytes > kMostIgnoredBytes ? MHD_NO : MHD_YES;
  }
  strangers_.Leave(connection);
  if (pending->ignored_bytes > 0) return Send(connection, TooLarge(), nullptr);
  if (pending->exchange == nullptr) return Dispatch(connection, pending);
  return Send(connection, pending->exchange->TakeResponse(), pending->exchange->channel());
}

MHD_Result MicroHttpServer::Begin(MHD_Connection* connection, const char* url, const char* method,
                                  void** state) {
  const char* announced =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  uint64_t bytes = 0;
  if (announced != nullptr && absl::SimpleAtoi(announced, &bytes) && bytes > options_.max_body_bytes) {
    return Send(connection, TooLarge(), nullptr);
  }
  auto pending = std::make_unique<Pending>();
  pending->request.method = method;
  pending->request.path = url;
  pending->request.peer = PeerOf(connection);
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, OnArgument, &pending->request.query);
  MHD_get_connection_values(connection, MHD_HEADER_KIND, OnHeader, &pending->request.headers);
  *state = pending.release();
  return MHD_YES;
}

MHD_Result MicroHttpServer::Dispatch(MHD_Connection* connection, Pending* pending) {
  pending->exchange = std::make_shared<Exchange>(connection, options_.max_unread_bytes);
  if (Remember(pending->exchange)) {
    handler_(pending->request, pending->exchange);
  } else {
    pending->exchange->Close();
  }
  if (pending->exchange->SuspendUnlessAnswered()) return MHD_YES;
  return Send(connection, pending->exchange->TakeResponse(), pending->exchange->channel());
}

HttpResponse MicroHttpServer::TooLarge() const {
  return {413, "text/plain", absl::StrCat("the body is larger than ", options_.max_body_bytes, " bytes\n")};
}

MHD_Result MicroHttpServer::Send(MHD_Connection* connection, const HttpResponse& response,
                                 const std::shared_ptr<Channel>& channel) {
  auto shared = channel == nullptr ? nullptr : std::make_unique<std::shared_ptr<Channel>>(channel);
  MHD_Response* made =
      shared == nullptr
          ? MHD_create_response_from_buffer(response.body.size(), const_cast<char*>(response.body.data()),
                                            MHD_RESPMEM_MUST_COPY)
          : MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlockBytes, Channel::Read,
                                              shared.get(), Channel::Free);
  if (made == nullptr) return MHD_NO;
  shared.release();  // The response has it.
  if (!response.content_type.empty()) {
    MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type.c_str());
  }
  for (const auto& [name, value] : response.headers)
    MHD_add_response_header(made, name.c_str(), value.c_str());
  const MHD_Result result = MHD_queue_response(connection, static_cast<unsigned int>(response.status), made);
  MHD_destroy_response(made);
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              HttpHandler handler) {
  auto server = std::make_unique<MicroHttpServer>(options, std::move(handler));
  if (const absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

}  // namespace adaptdl::httpd
