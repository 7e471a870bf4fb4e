#include "services/supervisor/kubernetes/jobs/object_registrar.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/kubejobs/job_object.h"
#include "libs/kubejobs/names.h"
#include "openssl/sha.h"
#include "services/supervisor/kubernetes/store/object_types.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

// Whose request has made the object, and which one: a label, as it is looked for.
constexpr char kRequestLabel[] = "adaptdl.petuum.com/request";
// SHA-256 of what was asked for, in hexadecimal digits.
constexpr char kContentAnnotation[] = "adaptdl.petuum.com/request-content";

std::string Hex(absl::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    absl::StrAppend(&text, absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
  }
  return text;
}

// Names the request among those of all callers, in what a label takes.
std::string NameOf(const RequestKey& key) {
  const std::string text = absl::StrCat(key.caller, "\n", key.name_space, "\n", key.request_id);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return Hex(absl::string_view(reinterpret_cast<const char*>(digest), 20));
}

absl::Status ContentDiffers(const RequestKey& key) {
  return absl::InvalidArgumentError(absl::StrCat("request_id: \"", key.request_id,
                                                 "\" was used for another content of ", key.method,
                                                 "; choose a new one for every call"));
}

}  // namespace

absl::StatusOr<Json> ObjectRegistrar::FindMade(const v1::Job& job, const std::string& request) const {
  const absl::StatusOr<std::vector<Json>> found =
      client_.ListAll(kube::Collection(AdaptDLJobs(), job.namespace_()),
                      {.labels = absl::StrCat(kRequestLabel, "=", request)});
  if (!found.ok()) return found.status();
  if (found->empty()) return absl::NotFoundError("the request has made no object");
  return found->front();
}

absl::StatusOr<v1::Job> ObjectRegistrar::Create(const v1::Job& job, const std::string& generate_name,
                                                const RequestKey& key) {
  const std::string request = NameOf(key);
  absl::StatusOr<Json> made = FindMade(job, request);
  if (absl::IsNotFound(made.status())) {
    absl::StatusOr<Json> object = kubejobs::ObjectFromJob(job, generate_name);
    if (!object.ok()) return object.status();
    (*object)["metadata"]["labels"][kRequestLabel] = request;
    (*object)["metadata"]["annotations"][kContentAnnotation] = Hex(key.content);
    made = client_.Create(kube::Collection(AdaptDLJobs(), job.namespace_()), *object,
                          {.field_manager = kubejobs::kFieldManager});
  }
  if (!made.ok()) return made.status();
  if (kube::AnnotationOf(*made, kContentAnnotation) != Hex(key.content)) return ContentDiffers(key);
  seen_(*made);
  return kubejobs::JobFromObject(*made, default_resources_);
}

absl::Status ObjectRegistrar::Update(const v1::Job& job) {
  Json patch = kubejobs::UpdatePatch(job.spec());
  // It may have been deleted and made anew.
  patch["metadata"]["uid"] = job.uid();
  const absl::StatusOr<Json> updated =
      client_.MergePatch(kube::ObjectOf(AdaptDLJobs(), {job.namespace_(), job.name()}), patch,
                         {.field_manager = kubejobs::kFieldManager});
  if (!updated.ok()) return updated.status();
  seen_(*updated);
  return absl::OkStatus();
}

}  // namespace adaptdl::supervisor
