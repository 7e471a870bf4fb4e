#include "services/worker/environment/environment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/base/unique_fd.h"
#include "services/worker/environment/bounded_command.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLockPeriod = absl::Milliseconds(100);
// Others of the namespace read it, where they run as other users; nobody but its maker changes it.
constexpr mode_t kOthersMask = 0027;
constexpr size_t kLongestVersion = 100;

// What environments of the same folder differ in: the version, and where this Python lies.
constexpr char kVersionProgram[] =
    "import hashlib, platform, sys; print(sys.implementation.cache_tag, platform.python_version(), "
    "hashlib.sha256(sys.base_prefix.encode()).hexdigest()[:12], sep='-')";
constexpr char kPackagesProgram[] = "import sysconfig; print(sysconfig.get_path('purelib'))";
// Lists the added library behind everything that was installed.
constexpr char kLibraryFile[] = "adaptdl-of-the-node.pth";

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  const mode_t before_;
};

// Removes the folder unless it is to stay.
class HalfMade {
 public:
  explicit HalfMade(std::string path) : path_(std::move(path)) {}
  ~HalfMade() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

class Provider {
 public:
  Provider(const EnvironmentOptions& options, const Clock& clock)
      : options_(options), clock_(clock), deadline_(clock.Steady() + options.timeout) {}

  absl::StatusOr<std::string> Provide() {
    absl::StatusOr<std::string> version = Version();
    if (!version.ok()) return version.status();
    const std::string link = absl::StrCat(options_.folder, "/", *version);
    if (std::optional<std::string> found = Find(link); found.has_value()) return *found;
    absl::StatusOr<UniqueFd> lock = Lock();
    if (!lock.ok()) return lock.status();
    // Whoever held the lock may have made it.
    if (std::optional<std::string> found = Find(link); found.has_value()) return *found;
    return Make(link);
  }

 private:
  absl::StatusOr<std::string> Version() const {
    const absl::StatusOr<std::string> output =
        Run("python", {options_.interpreter, "-I", "-c", kVersionProgram}, /*show=*/false);
    if (!output.ok()) {
      return absl::Status(output.status().code(),
                          absl::StrCat("the Python interpreter \"", options_.interpreter,
                                       "\" does not work: ", output.status().message()));
    }
    const std::string version(absl::StripAsciiWhitespace(*output));
    bool plain = !version.empty() && version.size() <= kLongestVersion && version[0] != '.';
    for (const char c : version)
      plain = plain && (absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' || c == '+');
    if (plain && !absl::StartsWith(version, kEnvironmentPrefix)) return version;
    return absl::FailedPreconditionError(
        absl::StrCat("\"", options_.interpreter, "\" is no Python: asked for its version it said \"",
                     absl::CHexEscape(version.substr(0, kLongestVersion)), "\""));
  }

  // The environment that the link points to, if it is there and works.
  std::optional<std::string> Find(const std::string& link) const {
    char name[PATH_MAX];
    const ssize_t size = readlink(link.c_str(), name, sizeof(name));
    if (size <= 0) return std::nullopt;
    std::string path = absl::StrCat(options_.folder, "/", absl::string_view(name, static_cast<size_t>(size)));
    if (access(absl::StrCat(path, "/bin/python").c_str(), X_OK) != 0) return std::nullopt;
    return path;
  }

  // Waits for whoever makes an environment in this folder.
  absl::StatusOr<UniqueFd> Lock() const {
    const std::string path = absl::StrCat(options_.folder, "/", kEnvironmentLock);
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
    bool said = false;
    while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoStatus(errno, absl::StrCat("lock ", path));
      if (clock_.Steady() >= deadline_) {
        return absl::DeadlineExceededError(
            "another replica makes the same virtual environment, and has not finished in time");
      }
      if (!said && options_.output_fd >= 0) {
        dprintf(options_.output_fd, "waiting for another replica that makes this virtual environment\n");
      }
      said = true;
      clock_.SleepFor(kLockPeriod);
    }
    return fd;
  }

  absl::StatusOr<std::string> Make(const std::string& link) const {
    const Umask umask(kOthersMask);
    const std::string name = absl::StrCat(kEnvironmentPrefix, RandomHex(8));
    const std::string path = absl::StrCat(options_.folder, "/", name);
    if (mkdir(path.c_str(), 0750) != 0) return ErrnoStatus(errno, absl::StrCat("make the folder ", path));
    HalfMade half_made(path);
    absl::Status status = Fill(path);
    if (status.ok()) status = CheckSize(path);
    if (status.ok()) status = Publish(name, link);
    if (!status.ok()) return status;
    half_made.Keep();
    return path;
  }

  absl::Status Fill(const std::string& path) const {
    // What the node has installed is seen: its PyTorch, above all, is large and fits its drivers.
    absl::StatusOr<std::string> output =
        Run("python -m venv", {options_.interpreter, "-m", "venv", "--system-site-packages", path},
            /*show=*/true);
    if (!output.ok()) return output.status();
    const std::string python = absl::StrCat(path, "/bin/python");
    if (options_.install) {
      const std::string scratch = absl::StrCat(path, "/tmp");
      if (mkdir(scratch.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("make ", scratch));
      output =
          Run("pip install",
              {python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir",
               "--progress-bar", "off", "-r", absl::StrCat(options_.folder, "/", kRequirementsFile)},
              /*show=*/true, path, scratch);
      if (!output.ok()) return output.status();
      std::error_code error;
      fs::remove_all(scratch, error);
      if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", scratch));
    }
    if (options_.library.empty()) return absl::OkStatus();
    output = Run("python", {python, "-I", "-c", kPackagesProgram}, /*show=*/false);
    if (!output.ok()) return output.status();
    return WriteFileAtomically(absl::StrCat(absl::StripAsciiWhitespace(*output), "/", kLibraryFile),
                               absl::StrCat(options_.library, "\n"), 0640);
  }

  absl::Status CheckSize(const std::string& path) const {
    if (options_.max_bytes <= 0) return absl::OkStatus();
    const int64_t bytes = BytesBeneath(path);
    if (bytes <= options_.max_bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("the environment has ", bytes,
                                                     " bytes and more: this node allows ", options_.max_bytes,
                                                     " (--max-python-environment-bytes of its worker)"));
  }

  // From here on others see it. All of it is on the disk before that, or a crash of the machine would leave a
  // name for something that is not whole.
  absl::Status Publish(const std::string& name, const std::string& link) const {
    const UniqueFd folder(open(options_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return ErrnoStatus(errno, absl::StrCat("open ", options_.folder));
    if (syncfs(folder.get()) != 0) return ErrnoStatus(errno, absl::StrCat("sync ", options_.folder));
    const std::string beside = absl::StrCat(options_.folder, "/link-", RandomHex(8));
    if (symlink(name.c_str(), beside.c_str()) != 0) return ErrnoStatus(errno, absl::StrCat("make ", beside));
    if (rename(beside.c_str(), link.c_str()) != 0) {
      const int error = errno;
      unlink(beside.c_str());
      return ErrnoStatus(error, absl::StrCat("make ", link));
    }
    return absl::OkStatus();
  }

  // `environment`: the folder whose size is watched; `scratch`: for temporary files. Empty: none, ours.
  absl::StatusOr<std::string> Run(const std::string& name, std::vector<std::string> words, bool show,
                                  const std::string& environment = "",
                                  const std::string& scratch = "") const {
    BoundedCommand command;
    command.name = name;
    command.command = std::move(words);
    // Of another environment, in which the worker may run.
    command.variables = {{"PYTHONHOME", ""}, {"PYTHONPATH", ""}, {"VIRTUAL_ENV", ""}};
    // What this job's user has at home, the next one's has not.
    command.variables.emplace("PYTHONNOUSERSITE", "1");
    if (!scratch.empty()) command.variables["TMPDIR"] = scratch;
    command.working_directory = options_.folder;
    command.deadline = deadline_;
    command.output_fd = show ? options_.output_fd : -1;
    if (!environment.empty()) command.check = [this, environment] { return CheckSize(environment); };
    return RunBounded(command, clock_);
  }

  const EnvironmentOptions& options_;
  const Clock& clock_;
  const absl::Time deadline_;
};

}  // namespace

int64_t BytesBeneath(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  // Files come and go while somebody works there.
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat info = {};
    if (lstat(entry->path().c_str(), &info) == 0) bytes += info.st_blocks * 512;
  }
  return bytes;
}

absl::StatusOr<std::string> ProvideEnvironment(const EnvironmentOptions& options, const Clock& clock) {
  return Provider(options, clock).Provide();
}

}  // namespace adaptdl::worker
