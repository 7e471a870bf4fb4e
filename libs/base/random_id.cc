#include "libs/base/random_id.h"

#include <sys/random.h>

#include <cstdlib>
#include <string>

#include "absl/strings/escaping.h"

namespace adaptdl {

std::string RandomHex(int bytes) {
  std::string raw(bytes, '\0');
  // Requests of up to 256 bytes are never cut short (getrandom(2)).
  if (getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) std::abort();
  return absl::BytesToHexString(raw);
}

}  // namespace adaptdl
