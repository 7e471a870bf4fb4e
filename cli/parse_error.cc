#include "cli/parse_error.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Error.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/nearest.h"

namespace adaptdl::cli {
namespace {

// Flags that may be given with the command: its own and those of the commands that it is one of.
std::vector<std::string> FlagsOf(const CLI::App* command) {
  std::vector<std::string> flags;
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;  // not for people
      for (const std::string& name : option->get_lnames()) flags.push_back(absl::StrCat("--", name));
    }
  }
  return flags;
}

std::vector<std::string> CommandsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub :
       command.get_subcommands([](const CLI::App* candidate) { return !candidate->get_group().empty(); })) {
    names.push_back(sub->get_name());
  }
  return names;
}

// Words by which other tools call what commands do here.
std::string CommandCalled(absl::string_view word) {
  constexpr std::pair<absl::string_view, absl::string_view> kWords[] = {
      {"get", "ls"},         {"jobs", "ls"},         {"list", "ls"},       {"ps", "ls"},
      {"squeue", "ls"},      {"status", "describe"}, {"show", "describe"}, {"inspect", "describe"},
      {"why", "explain"},    {"scale", "update"},    {"edit", "update"},   {"pause", "suspend"},
      {"hold", "suspend"},   {"unpause", "resume"},  {"kill", "cancel"},   {"stop", "cancel"},
      {"scancel", "cancel"}, {"rm", "delete"},       {"remove", "delete"}, {"sbatch", "submit"},
      {"apply", "submit"},   {"create", "submit"},   {"ui", "dashboard"}};
  for (const auto& [other, ours] : kWords) {
    if (word == other) return std::string(ours);
  }
  return "";
}

// A flag or a command that is none, where that is what is wrong: a required argument may be missing because the word
// before it was not understood. Empty: it is something else.
std::string UnknownText(const CLI::App& app, const CLI::App& command, const std::string& path) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const auto flag = std::find_if(unknown.begin(), unknown.end(), [](const std::string& word) {
    return word.size() > 1 && absl::StartsWith(word, "-");
  });
  if (flag != unknown.end()) {
    const std::vector<std::string> flags = FlagsOf(&command);
    const std::string name = flag->substr(0, flag->find('='));
    const std::string text =
        absl::StrCat(name, " is no flag of ", path, DidYouMeanFlag(name, {flags.begin(), flags.end()}));
    // "adaptdl submit train --lr 1": all of it is meant to be the program's.
    const bool takes_program = command.get_name() == "submit" || command.get_name() == "run";
    if (!takes_program || absl::EndsWith(text, "?")) return text;
    return absl::StrCat(text, "; a program and its flags stand behind \"--\", as in ", path,
                        " -- train --lr 1");
  }
  const std::vector<std::string> commands = CommandsOf(command);
  if (unknown.empty() || commands.empty()) return "";
  const std::string called = command.get_parent() == nullptr ? CommandCalled(unknown.front()) : "";
  if (!called.empty())
    return absl::StrCat(unknown.front(), " is no command of ", path, "; did you mean ", called, "?");
  return absl::StrCat(unknown.front(), " is no command of ", path,
                      DidYouMean(unknown.front(), {commands.begin(), commands.end()}));
}

}  // namespace

std::string ParseErrorText(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string path = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    absl::StrAppend(&path, " ", command->get_name());
  }
  std::string text = UnknownText(app, *command, path);
  if (text.empty()) text = error.what();
  return absl::StrCat(text, absl::EndsWith(text, "?") ? " See " : "; see ", path, " --help");
}

}  // namespace adaptdl::cli
