// The names of archives in tests. A plain function; thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_CODE_DIGEST_OF_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_CODE_DIGEST_OF_H_

#include <string>

#include "libs/archive/digest.h"

namespace adaptdl::supervisor {

inline std::string DigestOf(const std::string& content) {
  archive::Digester digester;
  digester.Add(content);
  return digester.Finish();
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_CODE_DIGEST_OF_H_
