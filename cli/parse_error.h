// What is wrong with a command line, and what may have been meant.
//
// A plain function; thread-compatible.

#ifndef ADAPTDL_CLI_PARSE_ERROR_H_
#define ADAPTDL_CLI_PARSE_ERROR_H_

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace adaptdl::cli {

// Of the parse of `app` that threw `error`: "--cpu is no flag of adaptdl submit; did you mean --cpus? See adaptdl submit
// --help".
std::string ParseErrorText(const CLI::App& app, const CLI::ParseError& error);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_PARSE_ERROR_H_
