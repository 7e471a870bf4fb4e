// What a Dockerfile says of where the files of its folder lie in the image: by WORKDIR and COPY (or ADD) of its last stage. What only
// building it could tell (variables, patterns, other stages' files, downloads) is left aside.
//
// A plain value; thread-safe.

#ifndef ADAPTDL_CLI_CODE_IMAGE_LAYOUT_H_
#define ADAPTDL_CLI_CODE_IMAGE_LAYOUT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl::cli {

class ImageLayout {
 public:
  static ImageLayout Parse(absl::string_view dockerfile);

  // Absolute: where the image's commands start.
  const std::string& workdir() const { return workdir_; }

  // What is at this absolute path of the image, relative to the folder ("." is the folder). None: the Dockerfile does not say so,
  // or there is no such file. `is_there`: whether the folder has a file or folder of that path.
  std::optional<std::string> Find(absl::string_view path,
                                  const std::function<bool(const std::string&)>& is_there) const;

  // Whether the path lies where the Dockerfile works or copies to: it is of the image, not of the nodes.
  bool IsOfImage(absl::string_view path) const;

 private:
  struct Copy {
    // Relative to the folder.
    std::string source;
    // Absolute.
    std::string target;
    // Whether the target is a folder, into which the source goes if it is a file.
    bool into_folder = false;
  };

  void Take(absl::string_view instruction, absl::string_view rest);
  void TakeCopy(absl::string_view rest);
  // Absolute, without "." and "..".
  std::string InImage(absl::string_view path) const;

  std::string workdir_ = "/";
  // In the file's order.
  std::vector<Copy> copies_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CODE_IMAGE_LAYOUT_H_
