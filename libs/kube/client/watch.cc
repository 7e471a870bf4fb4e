#include "libs/kube/client/watch.h"

#include "absl/strings/str_cat.h"
#include "libs/kube/client/watch_decoder.h"

namespace adaptdl::kube {
namespace {

// Beyond the moment when the server should have ended the watch.
constexpr absl::Duration kMargin = absl::Seconds(30);

}  // namespace

absl::Status Watch(const Client& client, const Target& collection, const WatchOptions& options,
                   const std::function<void(WatchEvent)>& take, const std::stop_token& stop) {
  ApiRequest request = {.target = collection,
                        .query = {{"watch", "true"},
                                  {"allowWatchBookmarks", "true"},
                                  {"resourceVersion", options.resource_version},
                                  {"timeoutSeconds", absl::StrCat(absl::ToInt64Seconds(options.timeout))}},
                        .timeout = options.timeout + kMargin};
  if (!options.selection.labels.empty())
    request.query.emplace_back("labelSelector", options.selection.labels);
  if (!options.selection.fields.empty())
    request.query.emplace_back("fieldSelector", options.selection.fields);
  WatchDecoder decoder(take);
  return client.session().Stream(
      request, [&](absl::string_view part) { return decoder.Feed(part); }, stop);
}

}  // namespace adaptdl::kube
