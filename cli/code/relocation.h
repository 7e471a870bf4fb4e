// A job that was written for an image, on nodes that run its command as it is: paths of the image become paths of the folder that goes
// along, where its Dockerfile says which those are.
//
// Plain functions; thread-safe. They read the folder.

#ifndef ADAPTDL_CLI_CODE_RELOCATION_H_
#define ADAPTDL_CLI_CODE_RELOCATION_H_

#include <string>
#include <vector>

#include "adaptdl/v1/job.pb.h"
#include "cli/code/image_layout.h"

namespace adaptdl::cli {

// What became of the paths of the image that a job names.
struct Relocation {
  // "/root/train.py as train.py".
  std::vector<std::string> taken;
  // Those that the folder does not have.
  std::vector<std::string> lost;
};

// Changes command, arguments and working directory, which then is relative to the folder, or a folder of the nodes.
Relocation Relocate(const ImageLayout& layout, const std::string& folder, v1::ReplicaTemplate* replica);

// What a user is to know of a job whose `image` (empty: none) is not pulled, and whose Dockerfile (`dockerfile`; empty: none) is not
// built. Empty: it has neither.
std::string ImageWarning(const std::string& image, const std::string& dockerfile,
                         const Relocation& relocation);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CODE_RELOCATION_H_
