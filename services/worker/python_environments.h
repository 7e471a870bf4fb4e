// The virtual environments of Python on this node: where they lie, who may see them, and which go when there
// are too many. They are made by adaptdl-environment, as the job's own user (environment/README.md).
//
//   <folder>/<namespace>/<digest>/...    environment/environment.h says what is in it
//
// The digest is of all that environments differ in but for the version of Python, which is found out when
// they are made: the requirements, the interpreter, the job's variables for pip (PIP_...), and the library of
// this node.
//
// Jobs of one namespace share environments; those of another one can't even look into the namespace's folder:
// where jobs have users of their own, it is open to a group of the namespace's own alone.
//
// Thread-safe. Waits for disks.

#ifndef ADAPTDL_SERVICES_WORKER_PYTHON_ENVIRONMENTS_H_
#define ADAPTDL_SERVICES_WORKER_PYTHON_ENVIRONMENTS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/base/mutex.h"
#include "services/worker/replica_accounts.h"

namespace adaptdl::worker {

struct PythonOptions {
  // Absolute. Made when it is needed.
  std::string folder;
  // Path of adaptdl-environment.
  std::string program;
  // Folder of a Python package for jobs to import (the package adaptdl). Empty: none.
  std::string library = {};
  // How long making an environment may take. It counts as the start of the replica, for which the supervisor
  // waits ten minutes.
  absl::Duration timeout = absl::Minutes(8);
  // Largest size of one environment, and of all that no replica uses.
  int64_t max_environment_bytes = int64_t{10} << 30;
  int64_t max_unused_bytes = int64_t{20} << 30;
};

// Who runs a job: its account (none: the worker's own user), and the group of its namespace's environments (none: they
// are the account's alone).
struct PythonUser {
  std::optional<Account> account = std::nullopt;
  std::optional<gid_t> group = std::nullopt;
};

class PythonEnvironments {
 public:
  explicit PythonEnvironments(PythonOptions options) : options_(std::move(options)) {}

  // "<namespace>/<digest>" of the job's environment. The namespace must have been checked (names.h).
  std::string NameOf(const std::string& job_namespace, const v1::ReplicaTemplate& replica) const;

  // Makes what adaptdl-environment needs for the job's environment, and returns its command line, which the job's own
  // is to follow.
  absl::StatusOr<std::vector<std::string>> Prepare(const std::string& job_namespace,
                                                   const v1::ReplicaTemplate& replica,
                                                   const PythonUser& user);

  // Removes what was left half-made, and environments of which `in_use` does not know the name, those that were asked
  // for longest ago first, until those have at most max_unused_bytes. Returns the bytes that are left of these. One call
  // at a time. `in_use` is called with a lock held that Prepare() takes: what is prepared later is never removed.
  int64_t Trim(const std::function<std::set<std::string>()>& in_use);

 private:
  // A folder with environments.
  struct Kept {
    std::string name;
    absl::Time asked;  // last
    int64_t bytes = 0;
  };

  // The folder of this name as adaptdl-environment needs it, with what it is to install.
  absl::Status MakeFolder(const std::string& name, const std::string& requirements, const PythonUser& user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Kept> List() const;
  // Paths of what was on its way in or out when a worker was cut off, or was moved out of the way.
  std::vector<std::string> LeftOver();
  // Bytes of the environments of that folder that are whole. What is half-made is added to `half_made`, by path.
  int64_t Measure(const std::string& name, std::vector<std::string>* half_made);
  // Removes `path`, which belongs to the folder `name`. False: a replica uses that by now.
  bool Remove(const std::string& path, const std::string& name,
              const std::function<std::set<std::string>()>& in_use);

  const PythonOptions options_;
  // Held while folders are made, and while they are moved out of the way.
  Mutex mutex_;
  // Of environments that are whole, by path: they don't change. For Trim() alone.
  std::map<std::string, int64_t> sizes_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_PYTHON_ENVIRONMENTS_H_
