// What goes along with a job, for people and programs that look before they submit. Plain functions; thread-safe.

#ifndef ADAPTDL_CLI_CODE_LISTING_H_
#define ADAPTDL_CLI_CODE_LISTING_H_

#include <string>
#include <vector>

#include "adaptdl/v1/job.pb.h"
#include "cli/output.h"
#include "libs/archive/folder_scan.h"

namespace adaptdl::cli {

// "3 files, 1.2KiB".
std::string AmountText(const archive::FolderContents& contents);

// Of the files that the job's command names, those that are left out, by which rules, and what takes them along: one line for
// each, for people.
std::vector<std::string> MissedByCommand(const archive::FolderContents& contents,
                                         const v1::ReplicaTemplate& replica);

// All files with their sizes, and what is left out by which rule.
std::string ListingText(const std::string& folder, const archive::FolderContents& contents);
Json ListingJson(const std::string& folder, const archive::FolderContents& contents);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CODE_LISTING_H_
