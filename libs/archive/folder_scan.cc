#include "libs/archive/folder_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libs/archive/ignore_rules.h"
#include "libs/archive/paths.h"
#include "libs/base/file.h"

namespace adaptdl::archive {
namespace {

constexpr int64_t kMaxRulesBytes = 1 << 20;
// Offenders that an error names.
constexpr size_t kMostNamed = 5;
// How far a folder beyond the limits is counted, so as to know who has most of it.
constexpr int64_t kCountedFactor = 10;
constexpr char kVirtualEnvironment[] = "built in: folders with pyvenv.cfg";

std::string Size(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, amount, kUnits[unit]);
}

std::string Shown(const std::string& path) { return absl::StrCat("\"", absl::Utf8SafeCEscape(path), "\""); }

absl::Status Refuse(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(Shown(path), " ", why, ": change it, or leave it out by a line in ", kIgnoreFile));
}

struct DirCloser {
  void operator()(DIR* folder) const { closedir(folder); }
};

class Scanner {
 public:
  Scanner(std::string root, const ScanLimits& limits) : root_(std::move(root)), limits_(limits) {}

  absl::StatusOr<FolderContents> Run() {
    waiting_.push_back({"", IgnoreRules::BuiltIn()});
    while (!waiting_.empty()) {
      const Waiting next = std::move(waiting_.back());
      waiting_.pop_back();
      if (absl::Status status = ReadFolder(next); !status.ok()) return status;
      if (count_ > limits_.max_files * kCountedFactor) break;
    }
    if (absl::Status status = CheckLimits(); !status.ok()) return status;
    std::sort(contents_.entries.begin(), contents_.entries.end(),
              [](const FolderEntry& a, const FolderEntry& b) { return a.path < b.path; });
    std::sort(contents_.left_out.begin(), contents_.left_out.end(),
              [](const LeftOut& a, const LeftOut& b) { return a.path < b.path; });
    return std::move(contents_);
  }

 private:
  struct Waiting {
    std::string path;
    std::shared_ptr<const IgnoreRules> rules;
  };
  // Of a file or folder at the root.
  struct Share {
    int64_t bytes = 0;
    int64_t files = 0;
    bool is_folder = false;
  };

  std::string PathOf(const std::string& relative) const {
    return relative.empty() ? root_ : absl::StrCat(root_, "/", relative);
  }

  absl::Status ReadFolder(const Waiting& folder) {
    absl::StatusOr<std::shared_ptr<const IgnoreRules>> rules = RulesIn(folder);
    if (!rules.ok()) return rules.status();
    const std::unique_ptr<DIR, DirCloser> entries(opendir(PathOf(folder.path).c_str()));
    if (entries == nullptr) return ErrnoStatus(errno, absl::StrCat("list ", PathOf(folder.path)));
    errno = 0;
    while (const dirent* entry = readdir(entries.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      const std::string path = folder.path.empty() ? name : absl::StrCat(folder.path, "/", name);
      if (absl::Status status = Take(path, *rules); !status.ok()) return status;
      errno = 0;
    }
    return errno == 0 ? absl::OkStatus() : ErrnoStatus(errno, absl::StrCat("list ", PathOf(folder.path)));
  }

  absl::StatusOr<std::shared_ptr<const IgnoreRules>> RulesIn(const Waiting& folder) const {
    std::shared_ptr<const IgnoreRules> rules = folder.rules;
    for (const char* name : {kGitIgnoreFile, kIgnoreFile}) {
      const std::string path = PathOf(folder.path.empty() ? name : absl::StrCat(folder.path, "/", name));
      struct stat info = {};
      if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxRulesBytes);
      if (!text.ok()) return text.status();
      rules = IgnoreRules::Below(std::move(rules), folder.path, *text, name);
    }
    return rules;
  }

  // Of Python: it works only where it was made, and is large.
  bool IsVirtualEnvironment(const std::string& path) const {
    struct stat info = {};
    return stat(absl::StrCat(PathOf(path), "/pyvenv.cfg").c_str(), &info) == 0 && S_ISREG(info.st_mode);
  }

  absl::Status Take(const std::string& path, const std::shared_ptr<const IgnoreRules>& rules) {
    struct stat info = {};
    if (lstat(PathOf(path).c_str(), &info) != 0) return ErrnoStatus(errno, PathOf(path));
    const bool is_folder = S_ISDIR(info.st_mode);
    std::string rule = rules->WhyIgnored(path, is_folder);
    if (rule.empty() && is_folder && IsVirtualEnvironment(path)) rule = kVirtualEnvironment;
    if (!rule.empty()) {
      std::vector<LeftOut>& left_out = contents_.left_out;
      if (left_out.size() < kMaxNotedLeftOut) left_out.push_back({path, is_folder, std::move(rule)});
      return absl::OkStatus();
    }
    if (const std::string wrong = WrongWithPath(path); !wrong.empty()) return Refuse(path, wrong);
    FolderEntry entry;
    entry.path = path;
    if (is_folder) {
      entry.kind = FolderEntry::Kind::kFolder;
      waiting_.push_back({path, rules});
    } else if (S_ISLNK(info.st_mode)) {
      entry.kind = FolderEntry::Kind::kLink;
      char target[PATH_MAX];
      const ssize_t size = readlink(PathOf(path).c_str(), target, sizeof(target));
      if (size < 0) return ErrnoStatus(errno, PathOf(path));
      entry.target.assign(target, static_cast<size_t>(size));
      if (const std::string wrong = WrongWithLink(path, entry.target); !wrong.empty()) {
        return Refuse(path, absl::StrCat("is a symbolic link to ", Shown(entry.target), " that ", wrong));
      }
    } else if (S_ISREG(info.st_mode)) {
      entry.size = info.st_size;
      entry.executable = (info.st_mode & S_IXUSR) != 0;
    } else {
      return Refuse(path, "is neither a file, a folder nor a link (a socket, pipe or device)");
    }
    Count(entry);
    return absl::OkStatus();
  }

  void Count(FolderEntry entry) {
    const std::string head = entry.path.substr(0, entry.path.find('/'));
    Share& share = shares_[head];
    share.bytes += entry.size;
    ++share.files;
    share.is_folder = share.is_folder || head != entry.path || entry.kind == FolderEntry::Kind::kFolder;
    ++count_;
    contents_.bytes += entry.size;
    // More is only counted.
    if (count_ <= limits_.max_files) contents_.entries.push_back(std::move(entry));
  }

  absl::Status CheckLimits() const {
    if (count_ > limits_.max_files) {
      return TooMuch(absl::StrCat(count_ > limits_.max_files * kCountedFactor ? "more than " : "", count_,
                                  " files and folders"),
                     absl::StrCat(limits_.max_files), &Share::files,
                     [](int64_t files) { return absl::StrCat(files); });
    }
    if (contents_.bytes <= limits_.max_bytes) return absl::OkStatus();
    return TooMuch(Size(contents_.bytes), Size(limits_.max_bytes), &Share::bytes, Size);
  }

  template <typename Show>
  absl::Status TooMuch(const std::string& amount, const std::string& limit, int64_t Share::*part,
                       const Show& show) const {
    std::vector<std::pair<std::string, Share>> shares(shares_.begin(), shares_.end());
    std::sort(shares.begin(), shares.end(),
              [&](const auto& a, const auto& b) { return a.second.*part > b.second.*part; });
    if (shares.size() > kMostNamed) shares.resize(kMostNamed);
    std::vector<std::string> named;
    for (const auto& [name, share] : shares) {
      named.push_back(
          absl::StrCat(Shown(absl::StrCat(name, share.is_folder ? "/" : "")), " (", show(share.*part), ")"));
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "the folder ", root_, " has ", amount, ", more than ", limit, "; most are in ",
        absl::StrJoin(named, ", "), ": leave out what the job does not need by lines in ", kIgnoreFile,
        " or ", kGitIgnoreFile, ", put data where the nodes can read it, or raise the limit"));
  }

  const std::string root_;
  const ScanLimits limits_;
  std::vector<Waiting> waiting_;
  FolderContents contents_;
  int64_t count_ = 0;
  std::map<std::string, Share> shares_;
};

}  // namespace

absl::StatusOr<FolderContents> ScanFolder(const std::string& folder, const ScanLimits& limits) {
  return Scanner(folder, limits).Run();
}

}  // namespace adaptdl::archive
