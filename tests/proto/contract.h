// The public contract as text, one line per element, and what may happen to it.
//
//   message adaptdl.v1.Job : file adaptdl/v1/job.proto
//   field adaptdl.v1.Job.labels : 4 map<string, string>
//   method adaptdl.v1.JobService.WatchJobs : adaptdl.v1.WatchJobsRequest -> stream
//   adaptdl.v1.WatchJobsResponse
//
// Pure.

#ifndef ADAPTDL_TESTS_PROTO_CONTRACT_H_
#define ADAPTDL_TESTS_PROTO_CONTRACT_H_

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace adaptdl::proto {

// All elements of a file, in the order of their declaration.
std::vector<std::string> DescribeFile(const google::protobuf::FileDescriptor& file);

struct ContractDifference {
  // Elements that were removed or changed, each with what it was, what it is now and what to do.
  std::vector<std::string> breaks;
  // Lines of elements that are new.
  std::vector<std::string> additions;
};

// Compares the contract as it was recorded and as it is.
ContractDifference Compare(const std::vector<std::string>& recorded, const std::vector<std::string>& current);

}  // namespace adaptdl::proto

#endif  // ADAPTDL_TESTS_PROTO_CONTRACT_H_
