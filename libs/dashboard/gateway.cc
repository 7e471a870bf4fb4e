#include "libs/dashboard/gateway.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/admin_service.grpc.pb.h"
#include "adaptdl/v1/history_service.grpc.pb.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "google/protobuf/util/json_util.h"
#include "libs/base/random_id.h"
#include "libs/dashboard/assets.h"
#include "libs/dashboard/job_json.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::dashboard {
namespace {

using httpd::HttpRequest;
using httpd::HttpResponse;
using nlohmann::json;

constexpr char kPage[] = "/index.html";
constexpr int kPageSize = 500;
constexpr int kTailLines = 500;
constexpr int kRequestIdBytes = 16;

// Nothing but our own files is loaded or run, and nobody shows us in a frame.
HttpResponse Secured(HttpResponse response) {
  response.headers.insert(
      response.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"X-Frame-Options", "DENY"},
       {"Referrer-Policy", "no-referrer"},
       {"Cross-Origin-Opener-Policy", "same-origin"},
       {"Cross-Origin-Resource-Policy", "same-origin"}});
  return response;
}

HttpResponse Document(std::string text) {
  return Secured({200, "application/json", std::move(text), {{"Cache-Control", "no-store"}}});
}

HttpResponse Refusal(int status, absl::string_view code, absl::string_view message) {
  return Secured({status,
                  "application/json",
                  ToText({{"code", std::string(code)}, {"message", std::string(message)}}),
                  {{"Cache-Control", "no-store"}}});
}

HttpResponse Refusal(const absl::Status& error) {
  int status = 502;
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
      status = 400;
      break;
    case absl::StatusCode::kUnauthenticated:
      status = 401;
      break;
    case absl::StatusCode::kPermissionDenied:
      status = 403;
      break;
    case absl::StatusCode::kNotFound:
      status = 404;
      break;
    case absl::StatusCode::kFailedPrecondition:
      status = 409;
      break;
    case absl::StatusCode::kResourceExhausted:
      status = 429;
      break;
    case absl::StatusCode::kUnimplemented:
      status = 501;
      break;
    case absl::StatusCode::kUnavailable:
      status = 503;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      status = 504;
      break;
    default:
      break;
  }
  return Refusal(status, absl::StatusCodeToString(error.code()), error.message());
}

// "%2A" and the like; "+" is none of it.
std::string Unescaped(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    unsigned code = 0;
    if (text[at] == '%' && absl::SimpleHexAtoi(text.substr(at + 1, 2), &code) && at + 2 < text.size()) {
      plain.push_back(static_cast<char>(code));
      at += 2;
    } else {
      plain.push_back(text[at]);
    }
  }
  return plain;
}

std::string ParameterOf(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : Unescaped(found->second);
}

template <typename Message>
Message ForJob(const HttpRequest& request) {
  Message message;
  message.set_namespace_(ParameterOf(request, "namespace"));
  message.set_name(ParameterOf(request, "name"));
  return message;
}

// As protobuf has it: names as in the documents of the interface.
template <typename Message>
std::string AsJson(const Message& message) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? text : "{}";
}

// The files of the page stay in the browser's cache, which asks anew only for the page itself: opening it again costs one request.
void SendAsset(const HttpRequest& request, const Asset& asset, httpd::HttpExchange& exchange) {
  const std::string etag = absl::StrCat("\"", asset.etag, "\"");
  const std::string lasts = asset.path == kPage ? "no-cache" : "max-age=31536000, immutable";
  HttpResponse response = {
      200, asset.content_type, "", {{"ETag", etag}, {"Cache-Control", lasts}, {"Vary", "Accept-Encoding"}}};
  if (HeaderOf(request, "if-none-match") == etag) {
    response.status = 304;
  } else if (absl::StrContains(HeaderOf(request, "accept-encoding"), "gzip")) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(asset.gzipped);
  } else {
    response.body = std::string(asset.plain);
  }
  exchange.Answer(Secured(std::move(response)));
}

// False: there is none by this name.
bool SendFile(absl::string_view path, const HttpRequest& request, httpd::HttpExchange& exchange) {
  for (const Asset& asset : Assets()) {
    if (asset.path != path) continue;
    SendAsset(request, asset, exchange);
    return true;
  }
  return false;
}

// Where a person begins.
std::string FirstNamespace(const v1::WhoAmIResponse& who, const std::string& wanted) {
  const auto& theirs = who.namespaces();
  const bool fits = theirs.empty() || std::any_of(theirs.begin(), theirs.end(), [&](const std::string& one) {
                      return one == wanted || one == "*";
                    });
  return fits ? wanted : theirs[0];
}

}  // namespace

const std::vector<std::string>& Gateway::Endpoints() {
  static const auto* const endpoints = new std::vector<std::string>{
      "jobs", "logs", "session", "job", "events", "history", "timelines", "nodes", "pools", "costs"};
  return *endpoints;
}

Gateway::~Gateway() {
  MutexLock lock(&mutex_);
  ending_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
  for (const auto& [stream, guest] : streams_) stream->Cancel();
  while (!calls_.empty() || places_ > 0) idle_.Wait(&mutex_);
}

bool Gateway::Enter(grpc::ClientContext* context, const std::string& bearer) {
  MutexLock lock(&mutex_);
  if (ending_ || calls_.size() >= options_.max_calls) return false;
  if (int& own = calls_of_[bearer]; own >= options_.max_calls_of_guest) {
    return false;
  } else {
    ++own;
  }
  calls_.insert(context);
  return true;
}

void Gateway::Leave(grpc::ClientContext* context, const std::string& bearer, const absl::Status& status,
                    const std::function<void()>& release) {
  // Before the call is off the books: until then this object lives.
  if (absl::IsUnavailable(status) && options_.go_on != nullptr) options_.go_on();
  MutexLock lock(&mutex_);
  calls_.erase(context);
  if (const auto own = calls_of_.find(bearer); --own->second == 0) calls_of_.erase(own);
  release();
  idle_.SignalAll();  // With the lock: whoever waits may destroy this object.
}

// A call on its way. By a reactor, of which gRPC touches nothing after OnDone(): when the last call has left, all is free, and the
// process may end.
template <typename Request, typename Response>
struct Gateway::Pending final : public grpc::ClientUnaryReactor {
  void OnDone(const grpc::Status& status) override {
    const absl::Status error = rpc::FromGrpcStatus(status);
    then(error, response);
    then = nullptr;
    gateway->Leave(&context, bearer, error, [this] { delete this; });
  }

  Gateway* gateway = nullptr;
  grpc::ClientContext context;
  Request request;
  Response response;
  std::string bearer;
  std::function<void(const absl::Status&, const Response&)> then;
};

template <typename Stub, typename Request, typename Response, typename Async>
bool Gateway::Start(AsyncMethod<Async, Request, Response> method, const Request& request,
                    const std::string& bearer,
                    std::function<void(const absl::Status&, const Response&)> then) {
  auto pending = std::make_unique<Pending<Request, Response>>();
  pending->gateway = this;
  pending->request = request;
  pending->bearer = bearer;
  pending->then = std::move(then);
  if (!Enter(&pending->context, bearer)) return false;
  const std::shared_ptr<grpc::Channel> channel = options_.channel();
  channel->GetState(/*try_to_connect=*/true);
  rpc::SetTimeout(&pending->context, options_.call_timeout);
  if (!bearer.empty()) pending->context.AddMetadata("authorization", absl::StrCat("Bearer ", bearer));
  auto* const call = pending.release();  // Owned by itself until it has ended.
  Stub stub(channel);
  (stub.async()->*method)(&call->context, &call->request, &call->response, call);
  call->StartCall();
  return true;
}

template <typename Stub, typename Request, typename Response, typename Async>
void Gateway::Call(AsyncMethod<Async, Request, Response> method, const Request& request, const Guest& guest,
                   const Exchange& exchange, std::function<std::string(const Response&)> render) {
  const bool started = Start<Stub, Request, Response>(
      method, request, guest.bearer,
      [this, guest, exchange, render = std::move(render)](const absl::Status& error,
                                                          const Response& response) {
        if (absl::IsUnauthenticated(error)) doorkeeper_->Forget(guest);
        exchange->Answer(error.ok() ? Document(render(response)) : Refusal(error));
      });
  if (!started) exchange->Answer(Refusal(503, "RESOURCE_EXHAUSTED", "too many requests at once"));
}

void Gateway::Handle(const HttpRequest& request, const Exchange& exchange) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (reads && doorkeeper_->shows_files() && SendFile(request.path, request, *exchange)) return;
  auto met = doorkeeper_->Meet(request);
  if (auto* const response = std::get_if<HttpResponse>(&met)) {
    exchange->Answer(Secured(std::move(*response)));
  } else if (auto* const proof = std::get_if<Proof>(&met)) {
    Ask(*proof, exchange);
  } else if (const Guest& guest = std::get<Guest>(met); !reads) {
    HandleChange(request, guest, exchange);
  } else if (absl::StartsWith(request.path, "/api/")) {
    HandleApi(request, guest, exchange);
  } else if (request.path == "/") {
    SendFile(kPage, request, *exchange);
  } else if (!SendFile(request.path, request, *exchange)) {
    exchange->Answer(Secured(PageOf(404, "There is nothing here.")));
  }
}

void Gateway::Ask(const Proof& proof, const Exchange& exchange) {
  const bool started = Start<v1::AdminService::Stub, v1::WhoAmIRequest, v1::WhoAmIResponse>(
      &v1::AdminService::Stub::async::WhoAmI, {}, proof.bearer,
      [this, proof, exchange](const absl::Status& error, const v1::WhoAmIResponse&) {
        exchange->Answer(Secured(doorkeeper_->Judge(proof, error)));
      });
  if (!started) {
    exchange->Answer(Secured(doorkeeper_->Judge(proof, absl::UnavailableError("too many calls"))));
  }
}

void Gateway::HandleApi(const HttpRequest& request, const Guest& guest, const Exchange& exchange) {
  const std::string what = request.path.substr(5);
  const std::vector<std::string>& endpoints = Endpoints();
  if (std::find(endpoints.begin(), endpoints.end(), what) == endpoints.end()) {
    exchange->Answer(Refusal(404, "NOT_FOUND", "there is nothing here"));
  } else if (what == "jobs" || what == "logs") {
    Stream(request, guest, exchange);
  } else if (what == "session") {
    Call<v1::AdminService::Stub, v1::WhoAmIRequest, v1::WhoAmIResponse>(
        &v1::AdminService::Stub::async::WhoAmI, {}, guest, exchange,
        [guest, name_space = options_.name_space](const v1::WhoAmIResponse& who) {
          json namespaces = json::array();
          for (const std::string& entry : who.namespaces()) namespaces.push_back(entry);
          return ToText({{"token", guest.token},
                         {"leaves", guest.leaves},
                         {"name", who.name()},
                         {"role", who.role()},
                         {"namespaces", namespaces},
                         {"namespace", FirstNamespace(who, name_space)}});
        });
  } else if (what == "job") {
    Call<v1::JobService::Stub, v1::GetJobRequest, v1::GetJobResponse>(
        &v1::JobService::Stub::async::GetJob, ForJob<v1::GetJobRequest>(request), guest, exchange,
        [](const v1::GetJobResponse& response) {
          json details = JobDetails(response.job());
          details["curve"] = GoodputCurve(response.job());
          return ToText(details);
        });
  } else if (what == "events") {
    auto wanted = ForJob<v1::ListEventsRequest>(request);
    wanted.set_page_size(kPageSize);
    wanted.set_page_token(ParameterOf(request, "page"));
    int64_t after = 0;
    if (absl::SimpleAtoi(ParameterOf(request, "after"), &after)) wanted.set_after_id(after);
    Call<v1::JobService::Stub, v1::ListEventsRequest, v1::ListEventsResponse>(
        &v1::JobService::Stub::async::ListEvents, wanted, guest, exchange, AsJson<v1::ListEventsResponse>);
  } else if (what == "history") {
    Call<v1::HistoryService::Stub, v1::GetJobHistoryRequest, v1::GetJobHistoryResponse>(
        &v1::HistoryService::Stub::async::GetJobHistory, ForJob<v1::GetJobHistoryRequest>(request), guest,
        exchange, AsJson<v1::GetJobHistoryResponse>);
  } else if (what == "timelines") {
    v1::ListTimelinesRequest wanted;
    wanted.set_namespace_(ParameterOf(request, "namespace"));
    wanted.set_page_size(kPageSize);
    wanted.set_page_token(ParameterOf(request, "page"));
    Call<v1::HistoryService::Stub, v1::ListTimelinesRequest, v1::ListTimelinesResponse>(
        &v1::HistoryService::Stub::async::ListTimelines, wanted, guest, exchange,
        AsJson<v1::ListTimelinesResponse>);
  } else if (what == "nodes") {
    v1::ListNodesRequest wanted;
    wanted.set_page_size(kPageSize);
    wanted.set_page_token(ParameterOf(request, "page"));
    Call<v1::NodeService::Stub, v1::ListNodesRequest, v1::ListNodesResponse>(
        &v1::NodeService::Stub::async::ListNodes, wanted, guest, exchange, AsJson<v1::ListNodesResponse>);
  } else if (what == "pools") {
    Call<v1::NodePoolService::Stub, v1::GetNodePoolsRequest, v1::GetNodePoolsResponse>(
        &v1::NodePoolService::Stub::async::GetNodePools, {}, guest, exchange,
        AsJson<v1::GetNodePoolsResponse>);
  } else if (what == "costs") {
    v1::GetCostsRequest wanted;
    wanted.set_namespace_(ParameterOf(request, "namespace"));
    Call<v1::NodePoolService::Stub, v1::GetCostsRequest, v1::GetCostsResponse>(
        &v1::NodePoolService::Stub::async::GetCosts, wanted, guest, exchange, AsJson<v1::GetCostsResponse>);
  }
}

void Gateway::HandleChange(const HttpRequest& request, const Guest& guest, const Exchange& exchange) {
  if (!IsOfOwnPage(request, guest)) {
    exchange->Answer(Refusal(403, "PERMISSION_DENIED", "only the dashboard's own page may ask for this"));
    return;
  }
  if (request.method == "POST" && request.path == "/api/cancel") {
    auto wanted = ForJob<v1::CancelJobRequest>(request);
    wanted.set_request_id(RandomHex(kRequestIdBytes));
    Call<v1::JobService::Stub, v1::CancelJobRequest, v1::CancelJobResponse>(
        &v1::JobService::Stub::async::CancelJob, wanted, guest, exchange,
        [](const v1::CancelJobResponse& response) { return ToText(JobRow(response.job())); });
  } else if (request.method == "POST" && request.path == "/api/scale") {
    auto wanted = ForJob<v1::UpdateJobRequest>(request);
    wanted.set_request_id(RandomHex(kRequestIdBytes));
    int32_t fewest = 0;
    int32_t most = 0;
    if (!absl::SimpleAtoi(ParameterOf(request, "min"), &fewest) ||
        !absl::SimpleAtoi(ParameterOf(request, "max"), &most)) {
      exchange->Answer(Refusal(400, "INVALID_ARGUMENT", "min and max are to be whole numbers"));
      return;
    }
    wanted.set_min_replicas(fewest);
    wanted.set_max_replicas(most);
    Call<v1::JobService::Stub, v1::UpdateJobRequest, v1::UpdateJobResponse>(
        &v1::JobService::Stub::async::UpdateJob, wanted, guest, exchange,
        [](const v1::UpdateJobResponse& response) { return ToText(JobRow(response.job())); });
  } else {
    exchange->Answer(Refusal(404, "NOT_FOUND", "there is nothing here"));
  }
}

bool Gateway::TakePlace(const std::string& bearer) {
  MutexLock lock(&mutex_);
  const auto own = places_of_.find(bearer);
  if (ending_ || places_ >= options_.max_streams) return false;
  if (own != places_of_.end() && own->second >= options_.max_streams_of_guest) return false;
  ++places_;
  ++places_of_[bearer];
  return true;
}

void Gateway::Stream(const HttpRequest& request, const Guest& guest, const Exchange& exchange) {
  if (!TakePlace(guest.bearer)) {
    exchange->Answer(Refusal(503, "RESOURCE_EXHAUSTED", "too many pages are open"));
    return;
  }
  auto stream = exchange->Stream(
      Secured({200, "text/event-stream", "retry: 2000\n\n", {{"Cache-Control", "no-store"}}}));
  const std::shared_ptr<grpc::Channel> channel = options_.channel();
  channel->GetState(/*try_to_connect=*/true);
  // May come before what is started is known by us: a step forgets those.
  auto ended = std::make_shared<std::atomic<bool>>(false);
  auto self = std::make_shared<std::weak_ptr<LiveStream>>();
  const auto done = [this, ended, self, bearer = guest.bearer] {
    if (options_.go_on != nullptr) options_.go_on();
    MutexLock lock(&mutex_);
    *ended = true;
    streams_.erase(self->lock());
    --places_;
    if (const auto own = places_of_.find(bearer); --own->second == 0) places_of_.erase(own);
    idle_.SignalAll();
  };
  std::shared_ptr<LiveStream> live;
  if (request.path == "/api/jobs") {
    auto wanted = ForJob<v1::WatchJobsRequest>(request);
    wanted.set_batch(true);
    live = StartJobStream(channel, guest.bearer, wanted, std::move(stream), done);
  } else {
    auto wanted = ForJob<v1::StreamLogsRequest>(request);
    wanted.set_follow(true);
    wanted.set_tail_lines(kTailLines);
    live = StartLogStream(channel, guest.bearer, wanted, std::move(stream), done);
  }
  MutexLock lock(&mutex_);
  *self = live;
  if (*ended) return;
  streams_[live] = guest;
  if (ending_) live->Cancel();
}

void Gateway::Step() {
  std::map<std::shared_ptr<LiveStream>, Guest> streams;
  {
    MutexLock lock(&mutex_);
    streams = streams_;
  }
  for (const auto& [stream, guest] : streams) {
    if (doorkeeper_->Knows(guest)) {
      stream->Flush();
    } else {
      stream->Cancel();
    }
  }
}

}  // namespace adaptdl::dashboard
