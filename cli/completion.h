// What can stand at the end of a command line that is being typed, by the same tree of commands and flags that --help is
// made of. Plain functions; as thread-safe as the tree.

#ifndef ADAPTDL_CLI_COMPLETION_H_
#define ADAPTDL_CLI_COMPLETION_H_

#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace adaptdl::cli {

struct Candidate {
  std::string text;
  // For people.
  std::string description;
};

// What a shell, or the cluster, knows and the tree does not.
enum class Names { kNone, kFiles, kFolders, kJobs, kNodes };

struct Completion {
  // Of the tree, those that begin with what is typed.
  std::vector<Candidate> candidates;
  Names names = Names::kNone;
  // What names must begin with, and what stands before them in the word ("--flag=").
  std::string typed;
  std::string before;
  // Flags of all commands with the values that they were given on the line.
  std::vector<std::pair<CLI::Option*, std::string>> globals;
};

// `words`: those behind the program's name; the last one is being typed, and may be empty. A "=" that the shell has made
// a word of its own (bash) stands between a flag and its value.
Completion Complete(CLI::App& app, const std::vector<std::string>& words);

// The text that makes a shell ("bash", "zsh", "fish") ask "adaptdl __complete" for words. Empty: no such shell.
std::string CompletionScript(const std::string& shell);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMPLETION_H_
