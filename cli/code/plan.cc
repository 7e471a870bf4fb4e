#include "cli/code/plan.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/code/image_layout.h"
#include "cli/code/relocation.h"
#include "libs/base/file.h"

namespace adaptdl::cli {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMaxDockerfileBytes = 1 << 20;

std::string ParentOf(const std::string& file) {
  const std::string parent = fs::path(file).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Also what a shell is told to run: "python3 train.py".
bool NamesAFile(const std::string& folder, const std::string& word) {
  for (const absl::string_view part : absl::StrSplit(word, absl::ByAnyChar(" \t\n;&|"), absl::SkipEmpty())) {
    std::error_code error;
    const fs::path path = std::string(part);
    if (path.is_relative() && fs::is_regular_file(fs::path(folder) / path, error)) return true;
  }
  return false;
}

bool CommandNamesAFile(const std::string& folder, const v1::ReplicaTemplate& replica) {
  std::vector<std::string> words(replica.command().begin(), replica.command().end());
  // Looked up in PATH.
  if (!words.empty() && !absl::StrContains(words.front(), '/')) words.erase(words.begin());
  words.insert(words.end(), replica.args().begin(), replica.args().end());
  for (const std::string& word : words) {
    if (NamesAFile(folder, word)) return true;
  }
  return false;
}

// A folder that the file gives relative to itself, as one of the nodes.
void ResolveFolder(const std::string& file, v1::ReplicaTemplate* replica) {
  const fs::path folder = replica->working_directory();
  if (file.empty() || folder.empty() || folder.is_absolute()) return;
  replica->set_working_directory((fs::absolute(file).parent_path() / folder).lexically_normal().string());
}

// Where the job starts, relative to the folder that goes along: what the file says is relative to the file.
absl::Status SetStart(const std::string& folder, const std::string& job_file, v1::ReplicaTemplate* replica) {
  fs::path start = replica->working_directory();
  if (start.empty() || start.is_absolute()) return absl::OkStatus();
  if (!job_file.empty()) {
    std::error_code error;
    const fs::path base = fs::relative(ParentOf(job_file), folder, error);
    // A file from elsewhere says it of the folder.
    if (!base.empty() && !absl::StartsWith(base.string(), "..")) start = base / start;
  }
  std::string text = start.lexically_normal().string();
  if (absl::StartsWith(text, "..")) {
    return absl::InvalidArgumentError(absl::StrCat("the job starts in ", replica->working_directory(),
                                                   ", which is outside of ", folder,
                                                   ", the folder that goes along with it: name a folder in "
                                                   "it, another one by --code DIR, or none by --no-code"));
  }
  if (absl::EndsWith(text, "/")) text.pop_back();
  replica->set_working_directory(text == "." ? "" : text);
  return absl::OkStatus();
}

// Its path. Empty: there is none.
absl::StatusOr<std::string> FindDockerfile(const std::string& folder, const std::string& name) {
  std::error_code error;
  const fs::path own = fs::path(folder) / (name.empty() ? "Dockerfile" : name);
  if (fs::is_regular_file(own, error)) return own.string();
  if (name.empty()) return std::string();
  // One that is asked for may be elsewhere.
  if (fs::is_regular_file(name, error)) return name;
  return absl::NotFoundError(absl::StrCat(own.string(), " does not exist; -d names a file of the folder"));
}

absl::StatusOr<Relocation> RelocateBy(const std::string& dockerfile, const std::string& folder,
                                      v1::ReplicaTemplate* replica) {
  if (dockerfile.empty()) return Relocation();
  const absl::StatusOr<std::string> text = ReadWholeFile(dockerfile, kMaxDockerfileBytes);
  if (!text.ok()) return text.status();
  return Relocate(ImageLayout::Parse(*text), folder, replica);
}

}  // namespace

absl::StatusOr<CodePlan> PlanCode(const CodeWish& wish, v1::ReplicaTemplate* replica) {
  std::error_code error;
  if (!wish.folder.empty() && !fs::is_directory(wish.folder, error)) {
    return absl::NotFoundError(absl::StrCat(wish.folder, " is no folder"));
  }
  if (wish.none) {
    ResolveFolder(wish.job_file, replica);
    return CodePlan{.folder = "", .warning = ImageWarning(replica->image(), "", {})};
  }
  const std::string folder = wish.folder.empty() ? ParentOf(wish.job_file) : wish.folder;
  const absl::StatusOr<std::string> dockerfile = FindDockerfile(folder, wish.dockerfile);
  if (!dockerfile.ok()) return dockerfile.status();
  v1::ReplicaTemplate there = *replica;
  if (absl::Status status = SetStart(folder, wish.job_file, &there); !status.ok()) return status;
  const absl::StatusOr<Relocation> relocation = RelocateBy(*dockerfile, folder, &there);
  if (!relocation.ok()) return relocation.status();
  const bool on_nodes = absl::StartsWith(there.working_directory(), "/");
  const bool wanted = !wish.folder.empty() || !replica->working_directory().empty() ||
                      CommandNamesAFile((fs::path(folder) / there.working_directory()).string(), there);
  if (wanted && !on_nodes) {
    if (wish.folder.empty() &&
        (fs::equivalent(folder, "/", error) || fs::equivalent(folder, wish.home, error))) {
      return absl::FailedPreconditionError(
          absl::StrCat(wish.job_file, " is in ", folder,
                       ", which is too much to take along unasked: put file and program into a folder of "
                       "their own, name one by --code DIR, or take none along by --no-code"));
    }
    if (!fs::is_directory(fs::path(folder) / there.working_directory(), error)) {
      return absl::NotFoundError(absl::StrCat("the job starts in ", there.working_directory(),
                                              ", which is no folder of ", folder,
                                              ", which goes along with it: make it, or name another folder"));
    }
    *replica = std::move(there);
    return CodePlan{.folder = folder, .warning = ImageWarning(replica->image(), *dockerfile, *relocation)};
  }
  CodePlan plan = {.folder = "", .warning = ImageWarning(replica->image(), "", {})};
  if (!wish.folder.empty()) {
    absl::StrAppend(&plan.warning, plan.warning.empty() ? "" : "\n", "warning: the job starts in ",
                    replica->working_directory(), " of the nodes: nothing of ", folder,
                    " goes along with it");
  }
  return plan;
}

}  // namespace adaptdl::cli
