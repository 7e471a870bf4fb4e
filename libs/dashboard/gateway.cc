#include "libs/dashboard/gateway.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

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

constexpr int kPageSize = 500;
constexpr int kTailLines = 500;
constexpr int kRequestIdBytes = 16;

// Nothing but our own files is loaded or run, nobody shows us in a frame, and nothing stays in the browser's caches.
HttpResponse Secured(HttpResponse response) {
  response.headers.insert(
      response.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
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

HttpResponse PageOf(int status, absl::string_view text) {
  return Secured(
      {status, "text/plain; charset=utf-8", absl::StrCat(text, "\n"), {{"Cache-Control", "no-store"}}});
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

void SendAsset(const HttpRequest& request, const Asset& asset, httpd::HttpExchange& exchange) {
  const auto header = [&](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string() : found->second;
  };
  const std::string etag = absl::StrCat("\"", asset.etag, "\"");
  HttpResponse response = {200,
                           asset.content_type,
                           "",
                           {{"ETag", etag}, {"Cache-Control", "no-cache"}, {"Vary", "Accept-Encoding"}}};
  if (header("if-none-match") == etag) {
    response.status = 304;
  } else if (absl::StrContains(header("accept-encoding"), "gzip")) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(asset.gzipped);
  } else {
    response.body = std::string(asset.plain);
  }
  exchange.Answer(Secured(std::move(response)));
}

}  // namespace

Gateway::~Gateway() {
  MutexLock lock(&mutex_);
  ending_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
  for (const auto& stream : streams_) stream->Cancel();
  while (!calls_.empty() || places_ > 0) idle_.Wait(&mutex_);
}

bool Gateway::Enter(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (ending_ || calls_.size() >= options_.max_calls) return false;
  calls_.insert(context);
  return true;
}

void Gateway::Leave(grpc::ClientContext* context, const absl::Status& status) {
  // Before the call is off the books: until then this object lives.
  if (absl::IsUnavailable(status) && options_.go_on != nullptr) options_.go_on();
  MutexLock lock(&mutex_);
  calls_.erase(context);
  idle_.SignalAll();  // With the lock: whoever waits may destroy this object.
}

template <typename Request, typename Response>
struct Gateway::Pending {
  grpc::ClientContext context;
  Request request;
  Response response;
};

template <typename Stub, typename Request, typename Response>
void Gateway::Call(void (Stub::async::*method)(grpc::ClientContext*, const Request*, Response*,
                                               std::function<void(grpc::Status)>),
                   const Request& request, const Exchange& exchange,
                   std::function<std::string(const Response&)> render) {
  auto pending = std::make_shared<Pending<Request, Response>>();
  pending->request = request;
  if (!Enter(&pending->context)) {
    exchange->Answer(Refusal(503, "RESOURCE_EXHAUSTED", "too many requests at once"));
    return;
  }
  const std::shared_ptr<grpc::Channel> channel = options_.channel();
  channel->GetState(/*try_to_connect=*/true);
  rpc::SetTimeout(&pending->context, options_.call_timeout);
  Stub stub(channel);
  (stub.async()->*method)(
      &pending->context, &pending->request, &pending->response,
      [this, pending, exchange, render = std::move(render)](const grpc::Status& status) {
        const absl::Status error = rpc::FromGrpcStatus(status);
        exchange->Answer(error.ok() ? Document(render(pending->response)) : Refusal(error));
        Leave(&pending->context, error);
      });
}

void Gateway::Handle(const HttpRequest& request, Exchange exchange) {
  if (!Access::NamesLoopback(request, port_)) {
    exchange->Answer(PageOf(421, "This is not the host that the dashboard is served as."));
    return;
  }
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (!access_->Admits(request)) {
    const std::string cookie = reads && request.path == "/" ? access_->Exchange(request) : "";
    exchange->Answer(
        cookie.empty()
            ? PageOf(403,
                     "Open the URL that \"adaptdl dashboard\" has printed. It can be used once: for another "
                     "browser, start another dashboard.")
            : Secured(
                  {303, "", "", {{"Set-Cookie", cookie}, {"Location", "/"}, {"Cache-Control", "no-store"}}}));
    return;
  }
  if (!reads) return HandleChange(request, exchange);
  if (absl::StartsWith(request.path, "/api/")) return HandleApi(request, exchange);
  if (request.path == "/" && request.query.count("key") > 0) {
    // The key is not to stay in the address bar.
    exchange->Answer(Secured({303, "", "", {{"Location", "/"}}}));
    return;
  }
  for (const Asset& asset : Assets()) {
    if (asset.path == (request.path == "/" ? "/index.html" : request.path))
      return SendAsset(request, asset, *exchange);
  }
  exchange->Answer(PageOf(404, "There is nothing here."));
}

void Gateway::HandleApi(const HttpRequest& request, const Exchange& exchange) {
  const absl::string_view what = absl::string_view(request.path).substr(5);
  if (what == "jobs" || what == "logs") {
    Stream(request, exchange);
  } else if (what == "session") {
    Call<v1::AdminService::Stub, v1::WhoAmIRequest, v1::WhoAmIResponse>(
        &v1::AdminService::Stub::async::WhoAmI, {}, exchange,
        [token = access_->token(), name_space = options_.name_space](const v1::WhoAmIResponse& who) {
          json namespaces = json::array();
          for (const std::string& entry : who.namespaces()) namespaces.push_back(entry);
          return ToText({{"token", token},
                         {"name", who.name()},
                         {"role", who.role()},
                         {"namespaces", namespaces},
                         {"namespace", name_space}});
        });
  } else if (what == "job") {
    Call<v1::JobService::Stub, v1::GetJobRequest, v1::GetJobResponse>(
        &v1::JobService::Stub::async::GetJob, ForJob<v1::GetJobRequest>(request), exchange,
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
        &v1::JobService::Stub::async::ListEvents, wanted, exchange, AsJson<v1::ListEventsResponse>);
  } else if (what == "history") {
    Call<v1::HistoryService::Stub, v1::GetJobHistoryRequest, v1::GetJobHistoryResponse>(
        &v1::HistoryService::Stub::async::GetJobHistory, ForJob<v1::GetJobHistoryRequest>(request), exchange,
        AsJson<v1::GetJobHistoryResponse>);
  } else if (what == "timelines") {
    v1::ListTimelinesRequest wanted;
    wanted.set_namespace_(ParameterOf(request, "namespace"));
    wanted.set_page_size(kPageSize);
    wanted.set_page_token(ParameterOf(request, "page"));
    Call<v1::HistoryService::Stub, v1::ListTimelinesRequest, v1::ListTimelinesResponse>(
        &v1::HistoryService::Stub::async::ListTimelines, wanted, exchange, AsJson<v1::ListTimelinesResponse>);
  } else if (what == "nodes") {
    v1::ListNodesRequest wanted;
    wanted.set_page_size(kPageSize);
    wanted.set_page_token(ParameterOf(request, "page"));
    Call<v1::NodeService::Stub, v1::ListNodesRequest, v1::ListNodesResponse>(
        &v1::NodeService::Stub::async::ListNodes, wanted, exchange, AsJson<v1::ListNodesResponse>);
  } else if (what == "pools") {
    Call<v1::NodePoolService::Stub, v1::GetNodePoolsRequest, v1::GetNodePoolsResponse>(
        &v1::NodePoolService::Stub::async::GetNodePools, {}, exchange, AsJson<v1::GetNodePoolsResponse>);
  } else if (what == "costs") {
    v1::GetCostsRequest wanted;
    wanted.set_namespace_(ParameterOf(request, "namespace"));
    Call<v1::NodePoolService::Stub, v1::GetCostsRequest, v1::GetCostsResponse>(
        &v1::NodePoolService::Stub::async::GetCosts, wanted, exchange, AsJson<v1::GetCostsResponse>);
  } else {
    exchange->Answer(Refusal(404, "NOT_FOUND", "there is nothing here"));
  }
}

void Gateway::HandleChange(const HttpRequest& request, const Exchange& exchange) {
  if (!access_->MayChange(request)) {
    exchange->Answer(Refusal(403, "PERMISSION_DENIED", "only the dashboard's own page may ask for this"));
    return;
  }
  if (request.method == "POST" && request.path == "/api/cancel") {
    auto wanted = ForJob<v1::CancelJobRequest>(request);
    wanted.set_request_id(RandomHex(kRequestIdBytes));
    Call<v1::JobService::Stub, v1::CancelJobRequest, v1::CancelJobResponse>(
        &v1::JobService::Stub::async::CancelJob, wanted, exchange,
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
        &v1::JobService::Stub::async::UpdateJob, wanted, exchange,
        [](const v1::UpdateJobResponse& response) { return ToText(JobRow(response.job())); });
  } else {
    exchange->Answer(Refusal(404, "NOT_FOUND", "there is nothing here"));
  }
}

void Gateway::Stream(const HttpRequest& request, const Exchange& exchange) {
  {
    MutexLock lock(&mutex_);
    if (ending_ || places_ >= options_.max_streams) {
      exchange->Answer(Refusal(503, "RESOURCE_EXHAUSTED", "too many pages are open"));
      return;
    }
    ++places_;
  }
  auto stream = exchange->Stream(
      Secured({200, "text/event-stream", "retry: 2000\n\n", {{"Cache-Control", "no-store"}}}));
  const std::shared_ptr<grpc::Channel> channel = options_.channel();
  channel->GetState(/*try_to_connect=*/true);
  // May come before what is started is known by us: a step forgets those.
  auto ended = std::make_shared<std::atomic<bool>>(false);
  auto self = std::make_shared<std::weak_ptr<LiveStream>>();
  const auto done = [this, ended, self] {
    if (options_.go_on != nullptr) options_.go_on();
    MutexLock lock(&mutex_);
    *ended = true;
    streams_.erase(self->lock());
    --places_;
    idle_.SignalAll();
  };
  std::shared_ptr<LiveStream> live;
  if (request.path == "/api/jobs") {
    auto wanted = ForJob<v1::WatchJobsRequest>(request);
    wanted.set_batch(true);
    live = StartJobStream(channel, wanted, std::move(stream), done);
  } else {
    auto wanted = ForJob<v1::StreamLogsRequest>(request);
    wanted.set_follow(true);
    wanted.set_tail_lines(kTailLines);
    live = StartLogStream(channel, wanted, std::move(stream), done);
  }
  MutexLock lock(&mutex_);
  *self = live;
  if (*ended) return;
  streams_.insert(live);
  if (ending_) live->Cancel();
}

void Gateway::Step() {
  std::set<std::shared_ptr<LiveStream>> streams;
  {
    MutexLock lock(&mutex_);
    streams = streams_;
  }
  for (const auto& stream : streams) stream->Flush();
}

}  // namespace adaptdl::dashboard
