// Which folder goes along with a job, and where in it the job starts.
//
// A folder that the user names does. That of a job file alone does when the job could not run without: it starts in a folder relative
// to the file, or its command names a file beside it. What starts in an absolute folder is on the nodes already.
//
// Plain functions; thread-safe. They read the folder.

#ifndef ADAPTDL_CLI_CODE_PLAN_H_
#define ADAPTDL_CLI_CODE_PLAN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::cli {

struct CodeWish {
  // The job file; empty: there is none.
  std::string job_file = {};
  // As the user named it; empty: not.
  std::string folder = {};
  // Whether nothing is to go along.
  bool none = false;
  // Of the folder; empty: "Dockerfile", if there is one.
  std::string dockerfile = {};
  // The user's, all of which goes nowhere without being named. Empty: it is not known.
  std::string home = {};
};

struct CodePlan {
  // Empty: nothing goes along.
  std::string folder;
  // For the user. Empty: there is nothing to say.
  std::string warning;
};

// Sets the replica's working directory to one in the folder, or to an absolute one. NOT_FOUND: the folder or its Dockerfile is not there.
// INVALID_ARGUMENT: it is to start outside of the folder. FAILED_PRECONDITION: the folder would be the user's home.
absl::StatusOr<CodePlan> PlanCode(const CodeWish& wish, v1::ReplicaTemplate* replica);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CODE_PLAN_H_
