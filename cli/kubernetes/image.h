// Building an image from a folder and pushing it, by docker, podman or buildah.
//
// A plain value; thread-safe. Programs end with the thread that started them, or when a stop is requested (CANCELLED).

#ifndef ADAPTDL_CLI_KUBERNETES_IMAGE_H_
#define ADAPTDL_CLI_KUBERNETES_IMAGE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::cli {

struct ImageOptions {
  // What the image is made of, and how.
  std::string folder;
  std::string dockerfile;
  // "registry.example/me/train", without a tag.
  std::string repository;
  // Of the name that the registry keeps it by.
  std::string tag;
  // Whether the registry has no TLS: our own, through a forwarded port.
  bool plain_http = false;
};

class ImageTool {
 public:
  // `name`: a program; empty: docker, podman or buildah, whichever is there first. FAILED_PRECONDITION: none is.
  static absl::StatusOr<ImageTool> Find(const std::string& name);

  // "sha256:...", by which the registry has it now. ABORTED: the program has failed; what it says is on standard error.
  absl::StatusOr<std::string> BuildAndPush(const ImageOptions& options) const;

 private:
  explicit ImageTool(std::string program) : program_(std::move(program)) {}

  // docker says the digest of what it has pushed, the others write it to a file.
  bool IsDocker() const;
  absl::StatusOr<std::string> PushByDocker(const ImageOptions& options, const std::string& image) const;
  absl::StatusOr<std::string> PushWithDigestFile(const ImageOptions& options, const std::string& image) const;

  std::string program_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_IMAGE_H_
