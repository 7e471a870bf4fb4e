// Reading the fields of one object of JSON that somebody else may have written: each has a type and bounds, one that is not
// there has its default, and all that nobody asked for are an error, too.
//
//   FieldReader fields(object, "status.members[3]", &status);
//   const std::string node = fields.Text("node");
//   fields.Done();
//   if (!status.ok()) ...
//
// Not thread-safe; object and status outlive the reader. Errors are INVALID_ARGUMENT; the first one stays.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_FIELDS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

// The largest whole number that all readers of JSON agree on.
inline constexpr int64_t kLargestNumber = int64_t{1} << 53;
// Bytes of a text; also of what the core stores (state/transaction_units.cc).
inline constexpr size_t kLongestText = 16 << 10;

class FieldReader {
 public:
  FieldReader(const kube::Json& object, std::string where, absl::Status* status);

  std::string Text(const std::string& name);
  int64_t Integer(const std::string& name, int64_t least = 0, int64_t most = kLargestNumber);
  int Count(const std::string& name) { return static_cast<int>(Integer(name, 0, 1 << 30)); }
  double Number(const std::string& name);
  bool Flag(const std::string& name);
  // InfinitePast: it is not there.
  absl::Time Time(const std::string& name);
  absl::Duration Duration(const std::string& name);
  std::vector<std::string> Texts(const std::string& name, size_t most);
  // Of a text that is one of these; the first of them: it is not there.
  template <typename Value>
  Value Choice(const std::string& name, const std::vector<std::pair<Value, const char*>>& choices);

  // Whether it is there.
  bool Has(const std::string& name) const { return Find(name) != nullptr; }
  // An object in it; `read` gets its own reader, which is done afterwards.
  void Object(const std::string& name, absl::FunctionRef<void(FieldReader*)> read);
  void Objects(const std::string& name, size_t most, absl::FunctionRef<void(FieldReader*)> read);
  // What the field is, for whoever reads it otherwise, or not at all. Null: it is not there.
  const kube::Json* Raw(const std::string& name);

  // All that may be there was asked for.
  void Done();
  void Fail(const std::string& name, absl::string_view what);

 private:
  const kube::Json* Find(const std::string& name) const;
  // The field, or null, also if it has not the type.
  const kube::Json* Typed(const std::string& name, bool (kube::Json::*is_type)() const noexcept,
                          absl::string_view type);

  const kube::Json& object_;
  const std::string where_;
  absl::Status& status_;
  std::set<std::string> known_;
};

// ---- Implementation only ----

template <typename Value>
Value FieldReader::Choice(const std::string& name,
                          const std::vector<std::pair<Value, const char*>>& choices) {
  if (!Has(name)) {
    known_.insert(name);
    return choices[0].first;
  }
  const std::string text = Text(name);
  for (const auto& [value, its_name] : choices) {
    if (text == its_name) return value;
  }
  Fail(name, "is none of the values that it can have");
  return choices[0].first;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_FIELDS_H_
