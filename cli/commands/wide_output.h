// -o of the commands that know a wide form of their table, beside the forms of all commands.

#ifndef ADAPTDL_CLI_COMMANDS_WIDE_OUTPUT_H_
#define ADAPTDL_CLI_COMMANDS_WIDE_OUTPUT_H_

#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "cli/context.h"

namespace adaptdl::cli {

// `more`: what the wide form has besides. The parse sets context->format and, if wide, what is returned.
std::shared_ptr<const bool> AddWideOutput(CLI::App* command, Context* context, const std::string& more);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_WIDE_OUTPUT_H_
