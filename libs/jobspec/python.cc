#include "libs/jobspec/python.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::jobspec {
namespace {

// Options of a line that make pip read another file.
constexpr absl::string_view kFileOptions[] = {"-r", "-c", "--requirement", "--constraint"};

// Without the option that says that what follows is to be installed as it lies there.
absl::string_view WithoutEditable(absl::string_view line) {
  for (const absl::string_view option : {"--editable", "-e"}) {
    if (!absl::ConsumePrefix(&line, option)) continue;
    absl::ConsumePrefix(&line, "=");
    break;
  }
  return absl::StripAsciiWhitespace(line);
}

bool NamesAnotherFile(absl::string_view line) {
  for (const absl::string_view option : kFileOptions) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, option)) continue;
    // "-rfile" is one as well; "--require-hashes" is none.
    if (!absl::StartsWith(option, "--") || rest.empty() || rest[0] == '=' || absl::ascii_isspace(rest[0])) {
      return true;
    }
  }
  return false;
}

bool IsRelativePath(absl::string_view line) {
  line = WithoutEditable(line);
  absl::ConsumePrefix(&line, "file:");
  return absl::StartsWith(line, ".");
}

}  // namespace

absl::Status CheckRequirements(absl::string_view field, absl::string_view text) {
  if (text.size() > kMaxRequirementsBytes) {
    return Wrong(field, absl::StrCat(text.size(), " bytes"), "give at most 64 KiB");
  }
  if (absl::Status status = CheckNoNul(field, text); !status.ok()) return status;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    const std::string place = absl::StrCat(field, ", line ", number);
    if (NamesAnotherFile(line)) {
      return Wrong(place, Show(line), "the nodes do not have that file; put its lines here");
    }
    if (IsRelativePath(line)) {
      return Wrong(place, Show(line),
                   "give a package's name or URL, or an absolute path that the nodes have");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPython(const v1::PythonEnvironment& python) {
  if (python.interpreter().size() > kMaxPathLength || HasControl(python.interpreter())) {
    return Wrong("spec.template.python.interpreter", Show(python.interpreter()),
                 "give a program such as python3, of at most 4096 printable characters");
  }
  return CheckRequirements("spec.template.python.requirements", python.requirements());
}

bool HasRequirements(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty() && line[0] != '#') return true;
  }
  return false;
}

}  // namespace adaptdl::jobspec
