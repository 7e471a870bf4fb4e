// The order in which jobs are listed, and which. Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_JOB_ORDER_H_
#define ADAPTDL_CLI_JOB_ORDER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::cli {

using JobList = google::protobuf::RepeatedPtrField<v1::Job>;

// What jobs can be sorted by. The first: as they were submitted.
std::vector<std::string> SortKeys();

// Sorts by one of these: names and times ascend, figures descend, and what is not known comes last. Jobs that are alike
// stay in their order. `reverse`: the other way round, with what is not known last all the same.
void SortJobs(const std::string& key, bool reverse, absl::Time now, JobList* jobs);
void SortJobs(const std::string& key, bool reverse, absl::Time now, std::vector<const v1::Job*>* jobs);

// Leaves the jobs that were there at `since` or later: those that have not ended before.
void KeepSince(absl::Time since, JobList* jobs);

// Leaves the jobs whose name fits the pattern ("train-*", "run-?[0-9]"), as a shell has it.
void KeepNamed(const std::string& pattern, JobList* jobs);

// Samples per second times what each is worth. 0: not known.
double GoodputOf(const v1::JobStatus& status);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_JOB_ORDER_H_
