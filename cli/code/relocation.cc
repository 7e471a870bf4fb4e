#include "cli/code/relocation.h"

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/format.h"

namespace adaptdl::cli {
namespace {

namespace fs = std::filesystem;

class Relocator {
 public:
  Relocator(const ImageLayout& layout, const std::string& folder) : layout_(layout), folder_(folder) {}

  Relocation Run(v1::ReplicaTemplate* replica) {
    SetStart(replica);
    bool is_program = true;
    for (auto* words : {replica->mutable_command(), replica->mutable_args()}) {
      for (std::string& word : *words) {
        TakeWord(is_program, &word);
        is_program = false;
      }
    }
    return relocation_;
  }

 private:
  bool IsThere(const std::string& path) const {
    std::error_code error;
    return !absl::StartsWith(path, "..") && fs::exists(fs::path(folder_) / path, error);
  }
  std::optional<std::string> Find(absl::string_view path) const {
    return layout_.Find(path, [this](const std::string& candidate) { return IsThere(candidate); });
  }

  // Where the command starts, in the image and in the folder.
  void SetStart(v1::ReplicaTemplate* replica) {
    const fs::path given = replica->working_directory();
    if (given.is_relative() && !given.empty()) {
      start_ = given;
      return;
    }
    in_image_ = given.empty() ? layout_.workdir() : given.string();
    const std::optional<std::string> found = in_image_ == "/" ? std::nullopt : Find(in_image_);
    std::error_code error;
    if (found.has_value() && fs::is_directory(fs::path(folder_) / *found, error)) {
      start_ = *found;
      replica->set_working_directory(*found == "." ? "" : *found);
      if (!given.empty()) Note(in_image_, *found);
    } else if (!given.empty() && layout_.IsOfImage(in_image_)) {
      // Other folders are of the nodes.
      replica->clear_working_directory();
      // Files that are copied there one by one may lie anywhere in the folder.
      if (in_image_ != layout_.workdir()) relocation_.lost.push_back(in_image_);
    }
  }

  // A path, or "--flag=PATH".
  void TakeWord(bool is_program, std::string* word) {
    const size_t equals = absl::StartsWith(*word, "-") ? word->find('=') : std::string::npos;
    const size_t begin = equals == std::string::npos ? 0 : equals + 1;
    const std::string path = word->substr(begin);
    if (path.empty()) return;
    const bool absolute = absl::StartsWith(path, "/");
    // Programs without a slash are looked up in PATH, and what is in the folder is right as it is.
    if (!absolute && (in_image_.empty() || (is_program && !absl::StrContains(path, '/')) ||
                      IsThere((start_ / path).lexically_normal().string()))) {
      return;
    }
    const std::string of_image = absolute ? path : (fs::path(in_image_) / path).lexically_normal().string();
    const std::optional<std::string> found = Find(of_image);
    if (!found.has_value()) {
      if (absolute && layout_.IsOfImage(path)) relocation_.lost.push_back(path);
      return;
    }
    std::string here = fs::path(*found).lexically_relative(start_).string();
    if (is_program && !absl::StrContains(here, '/')) here = absl::StrCat("./", here);
    Note(path, here);
    word->replace(begin, std::string::npos, here);
  }

  void Note(absl::string_view from, absl::string_view to) {
    relocation_.taken.push_back(absl::StrCat(from, " as ", to));
  }

  const ImageLayout& layout_;
  const std::string& folder_;
  // Empty: the job does not start where the image says.
  std::string in_image_;
  fs::path start_ = ".";
  Relocation relocation_;
};

}  // namespace

Relocation Relocate(const ImageLayout& layout, const std::string& folder, v1::ReplicaTemplate* replica) {
  return Relocator(layout, folder).Run(replica);
}

std::string ImageWarning(const std::string& image, const std::string& dockerfile,
                         const Relocation& relocation) {
  if (image.empty() && dockerfile.empty()) return "";
  std::vector<std::string> unused;
  if (!dockerfile.empty()) unused.push_back(absl::StrCat(dockerfile, " is not built"));
  if (!image.empty()) unused.push_back(absl::StrCat("image ", image, " is not pulled"));
  std::string text =
      absl::StrCat("warning: nodes run the command as it is: ", absl::StrJoin(unused, ", and "));
  if (!relocation.taken.empty()) {
    absl::StrAppend(&text, "; of the folder are taken ", absl::StrJoin(relocation.taken, ", "));
  }
  if (!relocation.lost.empty()) {
    absl::StrAppend(&text, "; ", absl::StrJoin(relocation.lost, ", "),
                    relocation.lost.size() == 1 ? " of the image is" : " of the image are",
                    " not in the folder: name a path relative to the folder, or one that the nodes have");
  }
  return Printable(absl::StrCat(
      text,
      ". What the image installs has to be on the nodes; --requirements FILE installs packages of Python"));
}

}  // namespace adaptdl::cli
