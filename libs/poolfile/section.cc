#include "libs/poolfile/section.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jobfile/quantity.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"
#include "libs/poolfile/pool_file.h"

namespace adaptdl::poolfile {

using jobfile::CheckType;
using jobfile::Field;
using jobfile::Get;
using jobfile::Node;
using jobfile::Quoted;
using jobfile::Type;

namespace {

constexpr size_t kLongestText = 1024;

}  // namespace

Section::Section(const Node& map, std::string path, absl::Span<const jobfile::KnownField> known,
                 jobfile::Problems* problems)
    : map_(map), path_(std::move(path)), problems_(*problems) {
  jobfile::CheckFields(map_, path_, known, &problems_);
}

bool Section::Has(absl::string_view name) const {
  const Node* node = map_.Find(name);
  return node != nullptr && node->kind != Node::Kind::kNull;
}

int Section::LineOf(absl::string_view name) const {
  const Node* node = map_.Find(name);
  return node == nullptr ? map_.line : node->line;
}

void Section::Refuse(absl::string_view name, absl::string_view text) const {
  problems_.Add(LineOf(name), absl::StrCat(PathOf(name), " ", text));
}

void Section::Require(absl::string_view name, absl::string_view remedy) const {
  if (!Has(name)) Refuse(name, absl::StrCat("is missing; ", remedy));
}

void Section::Exclude(const std::vector<absl::string_view>& names, absl::string_view why) const {
  for (const absl::string_view name : names) {
    if (Has(name)) Refuse(name, absl::StrCat("has no place here: ", why));
  }
}

bool Section::IsText(const Node& node, const std::string& path, size_t shortest, size_t longest) const {
  if (!CheckType(node, Type::kText, path, &problems_)) return false;
  const size_t size = node.text.size();
  if (size >= shortest && size <= longest && !jobspec::HasControl(node.text)) return true;
  problems_.Add(node.line, absl::StrCat(path, " must have ", shortest, " to ", longest,
                                        " printable characters, not ", Quoted(node.text)));
  return false;
}

void Section::ReadText(absl::string_view name, std::string* value) const {
  const Node* node = Get(&map_, name, Type::kText);
  if (node != nullptr && IsText(*node, PathOf(name), 1, kLongestText)) *value = node->text;
}

const Node* Section::List(absl::string_view name, size_t most) const {
  const Node* list = Get(&map_, name, Type::kList);
  if (list == nullptr || list->items.size() <= most) return list;
  Refuse(name, absl::StrCat("has ", list->items.size(), " entries; keep to ", most));
  return nullptr;
}

void Section::ReadTexts(absl::string_view name, std::vector<std::string>* values) const {
  const Node* list = List(name, kMaxEntries);
  if (list == nullptr) return;
  std::set<std::string> seen;
  for (size_t i = 0; i < list->items.size(); ++i) {
    const Node& item = list->items[i];
    const std::string path = absl::StrCat(PathOf(name), "[", i, "]");
    if (!IsText(item, path, 1, kLongestText)) continue;
    if (seen.insert(item.text).second) {
      values->push_back(item.text);
    } else {
      problems_.Add(item.line, absl::StrCat(path, " is ", Quoted(item.text), " once more; keep one"));
    }
  }
}

void Section::ReadTextMap(absl::string_view name, size_t longest,
                          std::map<std::string, std::string>* values) const {
  const Node* map = Map(name);
  if (map == nullptr) return;
  if (map->fields.size() > kMaxEntries) {
    Refuse(name, absl::StrCat("has ", map->fields.size(), " entries; keep to ", kMaxEntries));
    return;
  }
  for (const Field& field : map->fields) {
    const std::string path = jobfile::Join(PathOf(name), field.name);
    if (!IsText(field.value, path, 0, longest)) continue;
    if (field.name.empty() || field.name.size() > longest || jobspec::HasControl(field.name)) {
      problems_.Add(field.line,
                    absl::StrCat(path, ": its name must have 1 to ", longest, " printable characters"));
    } else if (!values->insert({field.name, field.value.text}).second) {
      problems_.Add(field.line, absl::StrCat(path, " is given twice; keep one"));
    }
  }
}

void Section::ReadBoolean(absl::string_view name, bool* value) const {
  const Node* node = Get(&map_, name, Type::kBoolean);
  if (node != nullptr) *value = absl::EqualsIgnoreCase(node->text, "true");
}

void Section::ReadInteger(absl::string_view name, int low, int high, int* value) const {
  const Node* node = Get(&map_, name, Type::kInteger);
  int64_t read = 0;
  if (node == nullptr || !jobfile::ReadInteger(*node, PathOf(name), low, high, &read, &problems_)) return;
  *value = static_cast<int>(read);
}

bool Section::ReadNumber(absl::string_view name, double low, double high, double* value) const {
  const Node* node = Get(&map_, name, Type::kNumber);
  double read = 0;
  if (node == nullptr || !jobfile::ReadNumber(*node, PathOf(name), low, high, &read, &problems_))
    return false;
  *value = read;
  return true;
}

bool Section::ReadDuration(absl::string_view name, absl::Duration low, absl::Duration high,
                           absl::Duration* value) const {
  // A quantity, so that "60" is told what it lacks, not that it is no text.
  const Node* node = Get(&map_, name, Type::kQuantity);
  if (node == nullptr) return false;
  absl::Duration read;
  if (absl::ParseDuration(node->text, &read) && read >= low && read <= high) {
    *value = read;
    return true;
  }
  Refuse(name, absl::StrCat("must be a time such as 90s, 10m or 1h30m, from ", absl::FormatDuration(low),
                            " to ", absl::FormatDuration(high), ", not ", Quoted(node->text)));
  return false;
}

bool Section::ReadTime(absl::string_view name, absl::Time* value) const {
  const Node* node = Get(&map_, name, Type::kText);
  if (node == nullptr) return false;
  absl::Time read;
  std::string error;
  // ParseTime also takes "infinite-future".
  if (absl::ParseTime(absl::RFC3339_full, node->text, &read, &error) && read != absl::InfiniteFuture() &&
      read != absl::InfinitePast()) {
    *value = read;
    return true;
  }
  Refuse(name, absl::StrCat("must be a time such as 2030-12-24T18:00:00+01:00, not ", Quoted(node->text)));
  return false;
}

void Section::ReadCpuMillis(absl::string_view name, int64_t* value) const {
  const Node* node = Get(&map_, name, Type::kQuantity);
  if (node == nullptr) return;
  const absl::StatusOr<int64_t> read = jobfile::ParseCpuMillis(node->text);
  if (!read.ok() || *read > jobspec::kMaxAmount) {
    Refuse(name, absl::StrCat("is no number of cores: ", read.ok() ? "too many" : read.status().message()));
  } else {
    *value = *read;
  }
}

void Section::ReadBytes(absl::string_view name, int64_t* value) const {
  const Node* node = Get(&map_, name, Type::kQuantity);
  if (node == nullptr) return;
  const absl::StatusOr<int64_t> read = jobfile::ParseBytes(node->text);
  if (!read.ok() || *read > jobspec::kMaxAmount) {
    Refuse(name, absl::StrCat("is no number of bytes: ", read.ok() ? "too many" : read.status().message()));
  } else {
    *value = *read;
  }
}

bool Section::ReadWord(absl::string_view name, const std::vector<absl::string_view>& words,
                       int* index) const {
  const Node* node = Get(&map_, name, Type::kText);
  if (node == nullptr) return false;
  const auto word = std::find(words.begin(), words.end(), node->text);
  if (word != words.end()) {
    *index = static_cast<int>(word - words.begin());
    return true;
  }
  Refuse(name, absl::StrCat("must be one of ", absl::StrJoin(words, ", "), ", not ", Quoted(node->text)));
  return false;
}

const Node* Section::Map(absl::string_view name) const { return Get(&map_, name, Type::kMap); }

std::vector<Section::Item> Section::Items(absl::string_view name, size_t most) const {
  std::vector<Item> items;
  const Node* list = List(name, most);
  if (list == nullptr) return items;
  for (size_t i = 0; i < list->items.size(); ++i) {
    std::string path = absl::StrCat(PathOf(name), "[", i, "]");
    if (!CheckType(list->items[i], Type::kMap, path, &problems_)) continue;
    items.push_back({&list->items[i], std::move(path)});
  }
  return items;
}

}  // namespace adaptdl::poolfile
