// Token files: what is accepted keeps the rules of the format, and a secret that was never issued finds
// nothing.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/service/security/token_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace security = adaptdl::security;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokens = security::ParseTokens(text);
  if (!tokens.ok()) return 0;
  std::set<std::string> names;
  for (const security::Token& token : *tokens) {
    if (token.name.empty() || token.name.size() > 63 || !names.insert(token.name).second) std::abort();
    if (token.sha256.size() != 64) std::abort();
    if ((token.role == security::Role::kUser) == token.namespaces.empty()) std::abort();
  }
  const security::TokenTable table(*tokens);
  for (const security::Token& token : *tokens) {
    // The file's hash is no secret that opens anything.
    if (table.Find(token.sha256, absl::UnixEpoch()) != nullptr) std::abort();
  }
  return 0;
}
