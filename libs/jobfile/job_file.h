// Job files: AdaptDL's AdaptDLJob YAML (docs/job-file.md) as the job that the supervisor takes.
//
//   auto file = jobfile::ReadJobFile("adaptdljob.yaml", {});
//   if (!file.ok()) ...   // every problem of the file, each with file name and line
//
// All functions are thread-safe.

#ifndef ADAPTDL_LIBS_JOBFILE_JOB_FILE_H_
#define ADAPTDL_LIBS_JOBFILE_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/jobspec/job_spec.h"

namespace adaptdl::jobfile {

struct ParseOptions {
  // The file need not name the job: the caller does.
  bool named_by_caller = false;
  // What its replicas are. Of pods, the container's command may be left out.
  jobspec::ReplicaKind replicas = jobspec::ReplicaKind::kProcess;
};

struct JobFile {
  // Namespace (empty if the file gives none), name, labels and spec.
  v1::Job job;
  // metadata.generateName, when job.name is empty.
  std::string generate_name;
  // Fields that are accepted and have no effect, each as "<file>:<line>: <text>".
  std::vector<std::string> warnings;
};

// `file_name` stands before each line number. INVALID_ARGUMENT holds one line per problem.
absl::StatusOr<JobFile> ParseJobFile(absl::string_view content, absl::string_view file_name,
                                     const ParseOptions& options);

// The same for the file at `path`; errors of reading it carry the errno's code.
absl::StatusOr<JobFile> ReadJobFile(const std::string& path, const ParseOptions& options);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_JOB_FILE_H_
