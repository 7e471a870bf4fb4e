// Leaves those lines of a replica's output that somebody wants: written since a time, with a pattern in them. Lines that
// come in parts (LogLine.partial) are taken or left whole; one of more than a mebibyte goes by its first mebibyte.
//
// The pattern is anybody's: it is RE2's, which takes time in proportion to the text whatever the pattern, and its size and
// its memory are bounded.
//
// Not thread-safe. Owns the parts of lines that have not ended: a mebibyte for each of stdout and stderr at most.

#ifndef ADAPTDL_LIBS_LOGS_LINE_FILTER_H_
#define ADAPTDL_LIBS_LOGS_LINE_FILTER_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"

namespace re2 {
class RE2;
}

namespace adaptdl::logs {

using Lines = google::protobuf::RepeatedPtrField<v1::LogLine>;

// In characters.
inline constexpr size_t kMaxPattern = 1024;

// INVALID_ARGUMENT: it is no pattern, or one of too much effort. The text begins with "pattern".
absl::Status CheckPattern(const std::string& pattern);

class LineFilter {
 public:
  // `since`: infinite past: all. `pattern`: empty: all. Errors are those of CheckPattern().
  static absl::StatusOr<std::unique_ptr<LineFilter>> Create(absl::Time since, const std::string& pattern);
  ~LineFilter();
  LineFilter(const LineFilter&) = delete;
  LineFilter& operator=(const LineFilter&) = delete;

  // Takes the next line of one replica, and appends what is wanted by now. Only the order within each of stdout and
  // stderr is kept.
  void Add(v1::LogLine line, Lines* wanted);
  // There are no more: appends what is wanted of lines that have not ended.
  void Finish(Lines* wanted);

  // Whether a whole line is wanted.
  bool Wants(absl::Time time, absl::string_view text) const;

 private:
  // A line of which parts have come.
  struct Open {
    // Neither: it is not decided yet.
    bool is_wanted = false;
    bool is_dropped = false;
    std::vector<v1::LogLine> parts;
    std::string text;
  };

  LineFilter(absl::Time since, std::unique_ptr<re2::RE2> pattern);

  bool Matches(absl::string_view text) const;
  void Decide(Open* open, Lines* wanted) const;

  const absl::Time since_;
  // Null: none.
  const std::unique_ptr<re2::RE2> pattern_;
  std::map<v1::LogSource, Open> open_;
};

}  // namespace adaptdl::logs

#endif  // ADAPTDL_LIBS_LOGS_LINE_FILTER_H_
