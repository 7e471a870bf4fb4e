#include "cli/completion.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adaptdl::cli {
namespace {

// The command that the words lead to, and what of it was given.
struct Place {
  CLI::App* command;
  // Waits for its value.
  CLI::Option* pending = nullptr;
  int positionals = 0;
  // Behind "--".
  bool is_foreign = false;
};

CLI::App* FindCommand(CLI::App* command, const std::string& word) {
  const auto found =
      command->get_subcommands([&](CLI::App* candidate) { return candidate->check_name(word); });
  return found.empty() ? nullptr : found.front();
}

// Of the command, or of those that it is one of.
CLI::Option* FindFlag(CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent()) {
    CLI::Option* option = command->get_option_no_throw(name);
    if (option != nullptr && option->nonpositional()) return option;
  }
  return nullptr;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool IsOf(CLI::App* app, const CLI::Option* option) {
  const auto options = app->get_options();
  return std::find(options.begin(), options.end(), option) != options.end();
}

void Step(CLI::App* app, const std::string& word, Place* place, Completion* completion) {
  if (place->is_foreign) return;
  const auto give = [&](CLI::Option* option, const std::string& value) {
    if (IsOf(app, option)) completion->globals.emplace_back(option, value);
  };
  if (place->pending != nullptr) {
    if (word == "=") return;
    give(std::exchange(place->pending, nullptr), word);
    return;
  }
  if (word == "--") {
    place->is_foreign = true;
    return;
  }
  if (word.size() > 1 && word[0] == '-') {
    const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    CLI::Option* option = FindFlag(place->command, parts.first);
    if (option == nullptr) return;
    if (absl::StrContains(word, '=')) {
      give(option, parts.second);
    } else if (TakesValue(*option)) {
      place->pending = option;
    } else {
      give(option, "true");
    }
    return;
  }
  if (CLI::App* command = FindCommand(place->command, word)) {
    place->command = command;
    place->positionals = 0;
  } else {
    ++place->positionals;
  }
}

// The positional that the next word is for. Null: there is none.
CLI::Option* NextPositional(CLI::App* command, int given) {
  for (CLI::Option* option : command->get_options()) {
    if (option->nonpositional()) continue;
    given -= option->get_items_expected_max();
    if (given < 0) return option;
  }
  return nullptr;
}

// "first line of the help", without what makes it more than a line.
std::string Summary(absl::string_view text) {
  text = text.substr(0, text.find('\n'));
  return std::string(text.substr(0, text.find("; ")));
}

void Add(const std::string& text, const std::string& description, Completion* completion) {
  if (absl::StartsWith(text, completion->typed)) {
    completion->candidates.push_back({absl::StrCat(completion->before, text), Summary(description)});
  }
}

// The choices in "FORMAT:{json,table,yaml}".
std::vector<std::string> ChoicesOf(const std::string& type) {
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',', absl::SkipEmpty());
}

Names NamesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string name = option.nonpositional() ? type : option.get_name(/*positional=*/true);
  const auto is = [&](absl::string_view part) { return absl::StrContains(name, part); };
  if (is("JOB")) return Names::kJobs;
  if (is("NODE") && !is("NODES")) return Names::kNodes;
  if (is("FILE") || is("DEST") || is("PATH") || is("PROGRAM")) return Names::kFiles;
  if (is("DIR")) return Names::kFolders;
  // A text that nothing is said of may well be a path.
  return type == "TEXT" && option.nonpositional() ? Names::kFiles : Names::kNone;
}

void AddValues(const CLI::Option& option, Completion* completion) {
  const std::vector<std::string> choices = ChoicesOf(option.get_type_name());
  for (const std::string& choice : choices) Add(choice, "", completion);
  if (choices.empty()) completion->names = NamesOf(option);
}

void AddFlags(CLI::App* command, Completion* completion) {
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) {
        // What a command says of a flag counts, not what all say.
        const bool known = std::any_of(completion->candidates.begin(), completion->candidates.end(),
                                       [&](const Candidate& other) { return other.text == "--" + name; });
        if (!known) Add(absl::StrCat("--", name), option->get_description(), completion);
      }
    }
  }
}

constexpr char kBashScript[] =
    R"(# bash completion of adaptdl, which says itself what fits: "adaptdl completion bash".
# shellcheck shell=bash

_adaptdl() {
  local line names=:none word=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  [[ $word != = ]] || word=
  while IFS= read -r line; do
    case $line in
      :*) names=$line ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  case $names in
    :files) mapfile -t COMPREPLY < <(compgen -f -- "$word"); compopt -o filenames 2>/dev/null || true ;;
    :folders) mapfile -t COMPREPLY < <(compgen -d -- "$word"); compopt -o filenames 2>/dev/null || true ;;
  esac
}

complete -F _adaptdl adaptdl
)";

constexpr char kZshScript[] = R"(#compdef adaptdl
# zsh completion of adaptdl, which says itself what fits: "adaptdl completion zsh".

_adaptdl() {
  local line names=:none text
  local -a offers
  while IFS= read -r line; do
    case $line in
      :*) names=$line ;;
      *)
        text=${line%%$'\t'*}
        offers+=("${text//:/\\:}:${line#*$'\t'}")
        ;;
    esac
  done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( ! $#offers )) || _describe adaptdl offers
  case $names in
    :files) _files ;;
    :folders) _files -/ ;;
  esac
}

if [[ $funcstack[1] == _adaptdl ]]; then
  _adaptdl "$@"
else
  compdef _adaptdl adaptdl
fi
)";

constexpr char kFishScript[] =
    R"(# fish completion of adaptdl, which says itself what fits: "adaptdl completion fish".

function __adaptdl_complete
    set -l typed (commandline -ct)
    test (count $typed) -gt 0; or set typed ''
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    for line in ($program __complete -- $words "$typed" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$typed"
            case ':folders'
                __fish_complete_directories "$typed" ''
            case ':*'
            case '*'
                echo $line
        end
    end
end

complete -c adaptdl -f -a '(__adaptdl_complete)'
)";

}  // namespace

Completion Complete(CLI::App& app, const std::vector<std::string>& words) {
  Completion completion;
  Place place = {.command = &app};
  for (size_t i = 0; i + 1 < words.size(); ++i) Step(&app, words[i], &place, &completion);
  completion.typed = words.empty() ? "" : words.back();
  if (place.is_foreign) {
    completion.names = Names::kFiles;
    return completion;
  }
  if (place.pending != nullptr) {
    // bash's word of its own.
    if (completion.typed == "=") completion.typed.clear();
    AddValues(*place.pending, &completion);
    return completion;
  }
  const size_t equals = completion.typed.find('=');
  if (absl::StartsWith(completion.typed, "--") && equals != std::string::npos) {
    const CLI::Option* option = FindFlag(place.command, completion.typed.substr(0, equals));
    completion.before = completion.typed.substr(0, equals + 1);
    completion.typed.erase(0, equals + 1);
    if (option != nullptr) AddValues(*option, &completion);
    return completion;
  }
  if (absl::StartsWith(completion.typed, "-")) {
    AddFlags(place.command, &completion);
    return completion;
  }
  if (place.positionals == 0) {
    for (CLI::App* command : place.command->get_subcommands([](CLI::App*) { return true; })) {
      if (!command->get_group().empty()) Add(command->get_name(), command->get_description(), &completion);
    }
  }
  if (const CLI::Option* option = NextPositional(place.command, place.positionals))
    AddValues(*option, &completion);
  return completion;
}

std::string CompletionScript(const std::string& shell) {
  if (shell == "bash") return kBashScript;
  if (shell == "zsh") return kZshScript;
  return shell == "fish" ? kFishScript : "";
}

}  // namespace adaptdl::cli
