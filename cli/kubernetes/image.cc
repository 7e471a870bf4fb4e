#include "cli/kubernetes/image.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/kubernetes/program.h"
#include "libs/base/file.h"
#include "libs/base/unique_fd.h"
#include "libs/kube/json/json.h"

namespace adaptdl::cli {
namespace {

absl::StatusOr<std::string> CheckDigest(absl::string_view text) {
  const absl::string_view digest = absl::StripAsciiWhitespace(text);
  absl::string_view hex = digest;
  if (absl::ConsumePrefix(&hex, "sha256:") && hex.size() == 64 &&
      std::all_of(hex.begin(), hex.end(), [](char c) { return absl::ascii_isxdigit(c); })) {
    return std::string(digest);
  }
  return absl::InternalError(absl::StrCat("\"", digest, "\" is no digest of an image"));
}

}  // namespace

absl::StatusOr<ImageTool> ImageTool::Find(const std::string& name) {
  if (!name.empty()) {
    if (IsProgramThere(name)) return ImageTool(name);
    return absl::FailedPreconditionError(absl::StrCat("--image-tool ", name, " is not there"));
  }
  for (const char* tool : {"docker", "podman", "buildah"}) {
    if (IsProgramThere(tool)) return ImageTool(tool);
  }
  return absl::FailedPreconditionError(
      "none of docker, podman and buildah is in PATH: install one; it builds the image that the job runs in. "
      "Or submit a job file whose image is in a registry already");
}

bool ImageTool::IsDocker() const {
  const std::string name = std::filesystem::path(program_).filename().string();
  return name != "podman" && name != "buildah";
}

absl::StatusOr<std::string> ImageTool::BuildAndPush(const ImageOptions& options) const {
  const std::string image = absl::StrCat(options.repository, ":", options.tag);
  absl::Status built = RunToEnd({program_, "build", "-t", image, "-f", options.dockerfile, options.folder});
  if (!built.ok()) return built;
  const absl::StatusOr<std::string> digest =
      IsDocker() ? PushByDocker(options, image) : PushWithDigestFile(options, image);
  return digest.ok() ? CheckDigest(*digest) : digest;
}

absl::StatusOr<std::string> ImageTool::PushByDocker(const ImageOptions& options,
                                                    const std::string& image) const {
  if (absl::Status pushed = RunToEnd({program_, "push", image}); !pushed.ok()) return pushed;
  const absl::StatusOr<std::string> text =
      OutputOfProgram({program_, "inspect", "--format", "{{json .RepoDigests}}", image});
  if (!text.ok()) return text.status();
  const absl::StatusOr<kube::Json> digests = kube::ParseJson(*text);
  if (digests.ok() && digests->is_array()) {
    for (const kube::Json& entry : *digests) {
      if (!entry.is_string()) continue;
      const std::string& whole = entry.get_ref<const std::string&>();
      absl::string_view digest = whole;
      if (absl::ConsumePrefix(&digest, absl::StrCat(options.repository, "@"))) return std::string(digest);
    }
  }
  return absl::InternalError(absl::StrCat(program_, " does not say the digest of ", image, " in ",
                                          options.repository, ", but: ", *text));
}

absl::StatusOr<std::string> ImageTool::PushWithDigestFile(const ImageOptions& options,
                                                          const std::string& image) const {
  char file[] = "/tmp/adaptdl-digest-XXXXXX";
  const UniqueFd made(mkstemp(file));
  if (!made.valid()) return ErrnoStatus(errno, file);
  const absl::Cleanup remove = [&file] { unlink(file); };
  std::vector<std::string> command = {program_, "push", "--digestfile", file};
  if (options.plain_http) command.push_back("--tls-verify=false");
  command.push_back(image);
  if (absl::Status pushed = RunToEnd(command); !pushed.ok()) return pushed;
  return ReadWholeFile(file, 1024);
}

}  // namespace adaptdl::cli
