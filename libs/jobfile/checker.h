// Checks a tree of a job file against tables of known fields, and gathers everything that is wrong with it.
//
// Not thread-safe: one Problems per file, used by one thread.

#ifndef ADAPTDL_LIBS_JOBFILE_CHECKER_H_
#define ADAPTDL_LIBS_JOBFILE_CHECKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/jobfile/document.h"

namespace adaptdl::jobfile {

// What is wrong (errors) or without effect (warnings), as "<file>:<line>: <text>".
class Problems {
 public:
  explicit Problems(absl::string_view file_name) : file_name_(file_name) {}

  void Add(int line, absl::string_view text);
  void Warn(int line, absl::string_view text);

  // OK, or INVALID_ARGUMENT with all errors in order of lines, one per line of the text.
  absl::Status ToStatus() const;
  // In order of lines.
  std::vector<std::string> Warnings() const;

 private:
  struct Problem {
    int line;
    std::string text;
  };
  std::vector<std::string> Render(std::vector<Problem> problems) const;

  std::string file_name_;
  std::vector<Problem> errors_;
  std::vector<Problem> warnings_;
};

// kNumber: with a fraction or without one.
enum class Type { kText, kInteger, kNumber, kBoolean, kQuantity, kList, kMap };

struct KnownField {
  absl::string_view name;
  Type type;
  // Empty: the field is used. Otherwise it is accepted with the warning "<path> has no effect: <ignored>".
  absl::string_view ignored = {};
};

// "spec.template", or "spec" under no parent.
std::string Join(absl::string_view path, absl::string_view name);

// `text` in quotes, made printable and short.
std::string Quoted(absl::string_view text);

// Whether `node` has the type; if not, says so. `path` names it in the message.
bool CheckType(const Node& node, Type type, const std::string& path, Problems* problems);

// Reports fields of `map` that are unknown, given twice, of a wrong type, or without effect.
void CheckFields(const Node& map, const std::string& path, absl::Span<const KnownField> known,
                 Problems* problems);

// The field if it is there, not null and of the type; else null (CheckFields has told the user why).
const Node* Get(const Node* map, absl::string_view name, Type type);

// The integer that a node of Type::kInteger holds, within [low, high]; false and a problem otherwise.
bool ReadInteger(const Node& node, const std::string& path, int64_t low, int64_t high, int64_t* value,
                 Problems* problems);

// The same for a node of Type::kNumber, which is finite.
bool ReadNumber(const Node& node, const std::string& path, double low, double high, double* value,
                Problems* problems);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_CHECKER_H_
