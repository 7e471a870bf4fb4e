// One map of fields of a pool file, read field by field. A field that is not there leaves its value as it is; one that
// is wrong is told to Problems with its path, and leaves it, too.
//
// Not thread-safe: the tree and the Problems outlive it.

#ifndef ADAPTDL_LIBS_POOLFILE_SECTION_H_
#define ADAPTDL_LIBS_POOLFILE_SECTION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"

namespace adaptdl::poolfile {

class Section {
 public:
  // Checks the map at `path` against the fields that are known.
  Section(const jobfile::Node& map, std::string path, absl::Span<const jobfile::KnownField> known,
          jobfile::Problems* problems);

  // Whether the field is there, and not empty.
  bool Has(absl::string_view name) const;
  // Its line, or that of the section.
  int LineOf(absl::string_view name) const;
  std::string PathOf(absl::string_view name) const { return jobfile::Join(path_, name); }

  // "<path of the field> <text>", on the field's line.
  void Refuse(absl::string_view name, absl::string_view text) const;
  // Refuses the section unless the field is there: "<path> is missing; <remedy>".
  void Require(absl::string_view name, absl::string_view remedy) const;
  // Refuses the fields that are there: "<path> has no place here: <why>".
  void Exclude(const std::vector<absl::string_view>& names, absl::string_view why) const;

  // A text of 1 to 1024 printable characters.
  void ReadText(absl::string_view name, std::string* value) const;
  // A list of such texts, each once.
  void ReadTexts(absl::string_view name, std::vector<std::string>* values) const;
  // Names and texts; the texts may be empty. Of both at most `longest` characters.
  void ReadTextMap(absl::string_view name, size_t longest, std::map<std::string, std::string>* values) const;
  void ReadBoolean(absl::string_view name, bool* value) const;
  void ReadInteger(absl::string_view name, int low, int high, int* value) const;
  // True: it is there, and right.
  bool ReadNumber(absl::string_view name, double low, double high, double* value) const;
  // "90s", "10m", "1h30m".
  bool ReadDuration(absl::string_view name, absl::Duration low, absl::Duration high,
                    absl::Duration* value) const;
  // "2030-12-24T18:00:00+01:00".
  bool ReadTime(absl::string_view name, absl::Time* value) const;
  // Quantities of Kubernetes.
  void ReadCpuMillis(absl::string_view name, int64_t* value) const;
  void ReadBytes(absl::string_view name, int64_t* value) const;
  // One of `words`: its index.
  bool ReadWord(absl::string_view name, const std::vector<absl::string_view>& words, int* index) const;

  // The map of that name, or null.
  const jobfile::Node* Map(absl::string_view name) const;
  // The items of the list of that name that are maps, with their paths. At most `most` items.
  struct Item {
    const jobfile::Node* node;
    std::string path;
  };
  std::vector<Item> Items(absl::string_view name, size_t most) const;

  int line() const { return map_.line; }
  const std::string& path() const { return path_; }
  const jobfile::Node& map() const { return map_; }

 private:
  bool IsText(const jobfile::Node& node, const std::string& path, size_t shortest, size_t longest) const;
  const jobfile::Node* List(absl::string_view name, size_t most) const;

  const jobfile::Node& map_;
  const std::string path_;
  jobfile::Problems& problems_;
};

}  // namespace adaptdl::poolfile

#endif  // ADAPTDL_LIBS_POOLFILE_SECTION_H_
