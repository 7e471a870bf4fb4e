// The rules of what a job brings along, and of what nodes are to fetch for it (v1::CodeArchive, v1::DataSet). Errors are
// INVALID_ARGUMENT and name the field, its value and the remedy. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_JOBSPEC_FILES_H_
#define ADAPTDL_LIBS_JOBSPEC_FILES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::jobspec {

// Of an archive, as CodeArchive has it: safe as the name of a file.
absl::Status CheckDigest(absl::string_view field, absl::string_view digest);
// Errors name the field "spec.template.code.<...>".
absl::Status CheckCode(const v1::CodeArchive& code);
// Of a job that brings a folder along: one that is relative stays within that.
absl::Status CheckFolderInCode(absl::string_view working_directory);

// Errors name the field "spec.template.data_sets[<i>].<...>".
absl::Status CheckDataSets(const google::protobuf::RepeatedPtrField<v1::DataSet>& data_sets);

}  // namespace adaptdl::jobspec

#endif  // ADAPTDL_LIBS_JOBSPEC_FILES_H_
