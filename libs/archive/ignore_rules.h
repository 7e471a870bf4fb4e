// Which files of a folder are left out, by the rules of gitignore files: the last rule that matches decides, those of
// a folder's own file stand above those of the folders around it, "!" takes a file in again, "/" at the beginning or in
// the middle ties a rule to the folder of its file, "/" at the end means folders only, "**" any number of folders.
//
//   auto rules = IgnoreRules::BuiltIn();
//   rules = IgnoreRules::Below(rules, "", text_of_gitignore);       // of the folder itself
//   rules->Ignores("data/a.bin", /*is_folder=*/false)
//
// Whoever walks a folder does not go into one that is left out: nothing in it can be taken in again, as with git.
//
// Immutable; thread-safe. Matching takes time in proportion to the lengths of rule and path at most.

#ifndef ADAPTDL_LIBS_ARCHIVE_IGNORE_RULES_H_
#define ADAPTDL_LIBS_ARCHIVE_IGNORE_RULES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl::archive {

class IgnoreRules {
 public:
  // What is never wanted: of version control, caches of Python and its tools, and virtual environments. A text of rules.
  static absl::string_view BuiltInText();
  static std::shared_ptr<const IgnoreRules> BuiltIn();
  // Those of a file's text, which stand above `outer` (null: there is none). `folder`: of the file, relative to the root
  // of all paths, without a "/" at its end; empty: the root. `file`: its name, for people.
  static std::shared_ptr<const IgnoreRules> Below(std::shared_ptr<const IgnoreRules> outer,
                                                  absl::string_view folder, absl::string_view text,
                                                  absl::string_view file = "a rule");

  // `path`: relative to the root.
  bool Ignores(absl::string_view path, bool is_folder) const;
  // The rule that leaves it out, for people: "data/.gitignore:3: *.bin". Empty: none does.
  std::string WhyIgnored(absl::string_view path, bool is_folder) const;

 private:
  struct Rule {
    bool takes_in = false;
    bool folders_only = false;
    // Whether it is about the whole path below the folder, not about the last part of it.
    bool whole_path = false;
    // Of the pattern, between its slashes.
    std::vector<std::string> parts;
    // As the file has it, and where.
    std::string text;
    int line = 0;
  };

  IgnoreRules(std::shared_ptr<const IgnoreRules> outer, absl::string_view folder, absl::string_view file)
      : outer_(std::move(outer)), folder_(folder), file_(file) {}

  static std::optional<Rule> ParseLine(absl::string_view line);
  // The rule that decides. Null: none of these says anything of it.
  const Rule* Find(absl::string_view path, bool is_folder) const;

  const std::shared_ptr<const IgnoreRules> outer_;
  const std::string folder_;
  const std::string file_;
  std::vector<Rule> rules_;
};

// Whether a file's name matches "*", "?" and "[...]" of the pattern, neither with a slash.
bool MatchesName(absl::string_view pattern, absl::string_view name);

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_IGNORE_RULES_H_
