// A tree of a YAML document as text again, which reads as the same tree.
//
// Plain function; thread-safe.

#ifndef ADAPTDL_CLI_CLOUD_DOCUMENT_TEXT_H_
#define ADAPTDL_CLI_CLOUD_DOCUMENT_TEXT_H_

#include <string>

#include "libs/jobfile/document.h"

namespace adaptdl::cli {

// In JSON's manner on one line per item of the outermost lists and maps; plain words stay plain.
std::string DocumentText(const jobfile::Node& root);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLOUD_DOCUMENT_TEXT_H_
