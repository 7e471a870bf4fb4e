#include "libs/kube/client/client.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace adaptdl::kube {
namespace {

constexpr char kJson[] = "application/json";

using Query = std::vector<std::pair<std::string, std::string>>;

void AddUnlessEmpty(const std::string& name, const std::string& value, Query* query) {
  if (!value.empty()) query->emplace_back(name, value);
}

absl::StatusOr<Json> ParseAnswer(const absl::StatusOr<std::string>& body) {
  return body.ok() ? ParseJson(*body) : body.status();
}

const char* NameOf(Propagation propagation) {
  switch (propagation) {
    case Propagation::kOrphan:
      return "Orphan";
    case Propagation::kBackground:
      return "Background";
    case Propagation::kForeground:
      return "Foreground";
    case Propagation::kDefault:
      break;
  }
  return "";
}

Json DeleteBody(const DeleteOptions& options) {
  Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (options.propagation != Propagation::kDefault) body["propagationPolicy"] = NameOf(options.propagation);
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) body["preconditions"]["resourceVersion"] = options.resource_version;
  if (options.grace_period.has_value())
    body["gracePeriodSeconds"] = absl::ToInt64Seconds(*options.grace_period);
  if (options.dry_run) body["dryRun"] = {"All"};
  return body;
}

// Hands over the page's objects; the token of the next page is left, or nothing.
absl::StatusOr<std::string> TakePage(const ResourceType& type, Json page,
                                     const std::function<void(Json)>& take) {
  const auto items = page.is_object() ? page.find("items") : page.end();
  if (items == page.end() || !(items->is_array() || items->is_null())) {
    return absl::UnknownError("the answer is no list of objects");
  }
  for (Json& item : *items) {
    if (!item.is_object()) continue;
    item["apiVersion"] = type.ApiVersion();
    item["kind"] = type.kind;
    take(std::move(item));
  }
  return TextAt(page, {"metadata", "continue"});
}

}  // namespace

absl::StatusOr<Json> Client::Get(const Target& target, const std::stop_token& stop) const {
  return ParseAnswer(session_.Call({.target = target}, stop));
}

absl::StatusOr<std::string> Client::List(const Target& collection, const ListOptions& options,
                                         const std::function<void(Json)>& take,
                                         const std::stop_token& stop) const {
  ApiRequest request = {.target = collection};
  AddUnlessEmpty("labelSelector", options.selection.labels, &request.query);
  AddUnlessEmpty("fieldSelector", options.selection.fields, &request.query);
  if (options.page_size > 0) request.query.emplace_back("limit", absl::StrCat(options.page_size));
  const size_t own = request.query.size();
  while (true) {
    absl::StatusOr<Json> page = ParseAnswer(session_.Call(request, stop));
    if (!page.ok()) return page.status();
    std::string resource_version = ResourceVersionOf(*page);
    const absl::StatusOr<std::string> next = TakePage(collection.type, *std::move(page), take);
    if (!next.ok()) return next.status();
    if (next->empty()) return resource_version;
    request.query.resize(own);
    request.query.emplace_back("continue", *next);
  }
}

absl::StatusOr<std::vector<Json>> Client::ListAll(const Target& collection, const Selection& selection,
                                                  const std::stop_token& stop) const {
  absl::StatusOr<std::string> listed;
  std::vector<Json> objects;
  for (const int page_size : {500, 0}) {
    objects.clear();
    listed = List(
        collection, {.selection = selection, .page_size = page_size},
        [&](Json object) { objects.push_back(std::move(object)); }, stop);
    if (!absl::IsOutOfRange(listed.status())) break;
  }
  if (!listed.ok()) return listed.status();
  return objects;
}

absl::StatusOr<Json> Client::Change(const std::string& method, const std::string& content_type,
                                    const Target& target, const Json& body, const ChangeOptions& options,
                                    const std::stop_token& stop) const {
  ApiRequest request = {.method = method, .target = target, .content_type = content_type, .body = Dump(body)};
  AddUnlessEmpty("fieldManager", options.field_manager, &request.query);
  if (options.dry_run) request.query.emplace_back("dryRun", "All");
  if (options.strict) request.query.emplace_back("fieldValidation", "Strict");
  return ParseAnswer(session_.Call(request, stop));
}

absl::StatusOr<Json> Client::Create(const Target& collection, const Json& object,
                                    const ChangeOptions& options, const std::stop_token& stop) const {
  return Change("POST", kJson, collection, object, options, stop);
}

absl::StatusOr<Json> Client::Replace(const Target& target, const Json& object, const ChangeOptions& options,
                                     const std::stop_token& stop) const {
  return Change("PUT", kJson, target, object, options, stop);
}

absl::StatusOr<Json> Client::MergePatch(const Target& target, const Json& patch, const ChangeOptions& options,
                                        const std::stop_token& stop) const {
  return Change("PATCH", "application/merge-patch+json", target, patch, options, stop);
}

absl::StatusOr<Json> Client::Apply(const Target& target, const Json& object, const ApplyOptions& options,
                                   const std::stop_token& stop) const {
  if (options.field_manager.empty())
    return absl::InvalidArgumentError("server-side apply needs a field manager");
  ApiRequest request = {.method = "PATCH",
                        .target = target,
                        .query = {{"fieldManager", options.field_manager}, {"fieldValidation", "Strict"}},
                        .content_type = "application/apply-patch+yaml",  // JSON is YAML
                        .body = Dump(object)};
  if (options.force) request.query.emplace_back("force", "true");
  if (options.dry_run) request.query.emplace_back("dryRun", "All");
  return ParseAnswer(session_.Call(request, stop));
}

absl::Status Client::Delete(const Target& target, const DeleteOptions& options,
                            const std::stop_token& stop) const {
  return session_.Call({.method = "DELETE", .target = target, .body = Dump(DeleteBody(options))}, stop)
      .status();
}

}  // namespace adaptdl::kube
