// The answer to "what if" as text and as a document. Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_WHAT_IF_TABLE_H_
#define ADAPTDL_CLI_WHAT_IF_TABLE_H_

#include <string>

#include "cli/output.h"
#include "simulator/history/what_if.h"

namespace adaptdl::cli {

// A table of figures, how far the model is off, and the jobs that were left out.
std::string RenderWhatIf(const simulator::WhatIfReport& report, bool colours);

Json WhatIfDocument(const simulator::WhatIfReport& report);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_WHAT_IF_TABLE_H_
