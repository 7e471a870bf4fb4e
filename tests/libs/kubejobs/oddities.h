// Objects in which one value is not what it should be, at each place in turn.

#ifndef ADAPTDL_TESTS_LIBS_KUBEJOBS_ODDITIES_H_
#define ADAPTDL_TESTS_LIBS_KUBEJOBS_ODDITIES_H_

#include <functional>
#include <set>
#include <string>

#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

// Calls `use` with `object` in which another value stands in each place, also of those within which others are.
inline void ForEachOddity(const kube::Json& object, const std::function<void(const kube::Json&)>& use) {
  std::set<std::string> places;
  const kube::Json leaves = object.flatten();
  for (const auto& leaf : leaves.items()) {
    for (kube::Json::json_pointer place(leaf.key()); !place.empty(); place = place.parent_pointer()) {
      places.insert(place.to_string());
    }
  }
  for (const std::string& place : places) {
    for (const char* odd :
         {"null", "-7", "1e300", "\"x\"", "true", "[]", "{}", "[null]", "[[3]]", R"({"x": [1]})"}) {
      kube::Json changed = object;
      changed[kube::Json::json_pointer(place)] = kube::Json::parse(odd);
      use(changed);
    }
  }
}

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_TESTS_LIBS_KUBEJOBS_ODDITIES_H_
