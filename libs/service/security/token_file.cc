#include "libs/service/security/token_file.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "nlohmann/json.hpp"

namespace adaptdl::security {
namespace {

using nlohmann::json;

constexpr int kSecretBytes = 32;
constexpr int64_t kMaxFileBytes = int64_t{16} << 20;
constexpr size_t kMaxTokenName = 63;
constexpr char kTimeFormat[] = "%Y-%m-%dT%H:%M:%SZ";

bool IsTokenName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxTokenName && absl::ascii_isalnum(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-' || c == '@';
         });
}

bool IsSha256(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

absl::Status CheckToken(const Token& token) {
  if (!IsTokenName(token.name)) {
    return absl::InvalidArgumentError(
        "name: give 1 to 63 letters, digits, \".\", \"_\", \"-\" and \"@\", beginning with a letter or "
        "digit");
  }
  if (!IsRoleOfPeople(token.role)) {
    return absl::InvalidArgumentError(
        absl::StrCat("role: a ", RoleName(token.role),
                     " has a certificate and no token; give \"admin\", \"operator\" or \"user\""));
  }
  if (token.role != Role::kUser && !token.namespaces.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("namespaces: an ", RoleName(token.role),
                                                   " is not limited to namespaces; give none, or role "
                                                   "\"user\""));
  }
  if (token.role == Role::kUser && (token.namespaces.empty() || token.namespaces.size() > kMaxNamespaces)) {
    return absl::InvalidArgumentError(
        absl::StrCat("namespaces: give a user the namespaces it may use, 1 to ", kMaxNamespaces, " of them"));
  }
  for (const std::string& name : token.namespaces) {
    if (IsNamespaceName(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("namespaces: \"", absl::CHexEscape(name.substr(0, kMaxTokenName)),
                     "\" is no name of one: give lower-case letters, digits and \"-\""));
  }
  return absl::OkStatus();
}

// Reads the fields of one entry; keeps the first error.
class EntryReader {
 public:
  explicit EntryReader(const json& entry) : entry_(entry) {}

  std::string Text(const char* name) {
    known_.insert(name);
    const auto it = entry_.find(name);
    if (it != entry_.end() && it->is_string()) return it->get<std::string>();
    Refuse(name, "is missing, or no text");
    return "";
  }

  std::vector<std::string> Texts(const char* name) {
    known_.insert(name);
    std::vector<std::string> texts;
    const auto it = entry_.find(name);
    if (it == entry_.end()) return texts;
    if (!it->is_array()) Refuse(name, "is no list of texts");
    for (const json& item : *it) {
      if (!item.is_string()) {
        Refuse(name, "is no list of texts");
        break;
      }
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }

  absl::Time Time(const char* name) {
    absl::Time time;
    std::string error;
    const std::string text = Text(name);
    if (status_.ok() && !absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
      Refuse(name, "is no time such as 2026-01-31T12:00:00Z");
    }
    return time;
  }

  bool Has(const char* name) const { return entry_.contains(name); }
  void Refuse(absl::string_view name, absl::string_view why) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat(name, " ", why)));
  }

  absl::Status Finish() {
    for (const auto& item : entry_.items()) {
      if (!known_.contains(item.key())) Refuse(absl::CHexEscape(item.key()), "is no field of a token");
    }
    return status_;
  }

 private:
  const json& entry_;
  std::set<std::string> known_;
  absl::Status status_;
};

absl::StatusOr<Token> ParseToken(const json& entry) {
  if (!entry.is_object()) return absl::InvalidArgumentError("is no object");
  EntryReader reader(entry);
  Token token;
  token.name = reader.Text("name");
  const std::string role = reader.Text("role");
  if (const std::optional<Role> known = ParseRole(role)) {
    token.role = *known;
  } else {
    reader.Refuse("role", "is none; give \"admin\", \"operator\" or \"user\"");
  }
  token.namespaces = reader.Texts("namespaces");
  token.sha256 = reader.Text("sha256");
  token.created = reader.Time("created");
  if (reader.Has("expires")) token.expires = reader.Time("expires");
  if (const absl::Status status = reader.Finish(); !status.ok()) return status;
  if (!IsSha256(token.sha256))
    return absl::InvalidArgumentError("sha256 is not 64 lower-case hexadecimal digits");
  if (const absl::Status status = CheckToken(token); !status.ok()) return status;
  return token;
}

std::string FormatTokens(const std::vector<Token>& tokens) {
  json entries = json::array();
  for (const Token& token : tokens) {
    json entry = {{"name", token.name},
                  {"role", std::string(RoleName(token.role))},
                  {"namespaces", token.namespaces},
                  {"sha256", token.sha256},
                  {"created", absl::FormatTime(kTimeFormat, token.created, absl::UTCTimeZone())}};
    if (token.expires != absl::InfiniteFuture()) {
      entry["expires"] = absl::FormatTime(kTimeFormat, token.expires, absl::UTCTimeZone());
    }
    entries.push_back(std::move(entry));
  }
  return absl::StrCat(json{{"tokens", std::move(entries)}}.dump(2), "\n");
}

// Lets one program at a time change the files of a folder. The folder itself is locked, as the file is
// another one after each change.
class FolderLock {
 public:
  static absl::StatusOr<FolderLock> Take(const std::string& file) {
    const std::filesystem::path parent = std::filesystem::path(file).parent_path();
    const std::string folder = parent.empty() ? "." : parent.string();
    const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open folder ", folder));
    FolderLock lock(fd);
    while (flock(fd, LOCK_EX) != 0) {
      if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("lock folder ", folder));
    }
    return lock;
  }
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

absl::Time ToSeconds(absl::Time time) { return absl::FromUnixSeconds(absl::ToUnixSeconds(time)); }

}  // namespace

std::string Sha256Hex(absl::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

absl::StatusOr<std::vector<Token>> ParseTokens(absl::string_view text) {
  const json document = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const bool form = document.is_object() && document.size() == 1 && document.contains("tokens") &&
                    document["tokens"].is_array();
  if (!form) return absl::InvalidArgumentError("is not of the form {\"tokens\": [...]}");
  std::vector<Token> tokens;
  std::set<std::string> names, hashes;
  for (const json& entry : document["tokens"]) {
    absl::StatusOr<Token> token = ParseToken(entry);
    const std::string where = absl::StrCat("tokens[", tokens.size(), "]");
    if (!token.ok()) return absl::InvalidArgumentError(absl::StrCat(where, ": ", token.status().message()));
    if (!names.insert(token->name).second || !hashes.insert(token->sha256).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": its name or its sha256 is that of another"));
    }
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

absl::StatusOr<std::vector<Token>> ReadTokenFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": others than its owner may write to it; run: chmod go-w ", path));
  }
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxFileBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<Token>> tokens = ParseTokens(*text);
  if (!tokens.ok())
    return absl::Status(tokens.status().code(), absl::StrCat(path, ": ", tokens.status().message()));
  return tokens;
}

absl::StatusOr<std::string> CreateToken(const std::string& path, const NewToken& token, const Clock& clock) {
  if (token.lifetime <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("lifetime: give a time above zero");
  }
  const std::string secret =
      absl::StrCat(kTokenPrefix, absl::WebSafeBase64Escape(absl::HexStringToBytes(RandomHex(kSecretBytes))));
  Token entry{.name = token.name,
              .role = token.role,
              .namespaces = token.namespaces,
              .sha256 = Sha256Hex(secret),
              .created = ToSeconds(clock.Now())};
  // Rounded up: a token lives no shorter than was asked for.
  if (token.lifetime != absl::InfiniteDuration()) {
    entry.expires = ToSeconds(clock.Now() + token.lifetime + absl::Seconds(1) - absl::Nanoseconds(1));
  }
  if (const absl::Status status = CheckToken(entry); !status.ok()) return status;
  const absl::StatusOr<FolderLock> lock = FolderLock::Take(path);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::vector<Token>> tokens = ReadTokenFile(path);
  if (absl::IsNotFound(tokens.status())) tokens = std::vector<Token>();
  if (!tokens.ok()) return tokens.status();
  for (const Token& other : *tokens) {
    if (other.name != token.name) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("there is a token \"", token.name, "\"; revoke it first, or choose another name"));
  }
  tokens->push_back(std::move(entry));
  if (const absl::Status status = WriteFileAtomically(path, FormatTokens(*tokens), 0600); !status.ok())
    return status;
  return secret;
}

absl::Status RevokeToken(const std::string& path, absl::string_view name) {
  const absl::StatusOr<FolderLock> lock = FolderLock::Take(path);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::vector<Token>> tokens = ReadTokenFile(path);
  if (!tokens.ok()) return tokens.status();
  const size_t gone = std::erase_if(*tokens, [name](const Token& token) { return token.name == name; });
  if (gone == 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": has no token \"", absl::CHexEscape(name.substr(0, kMaxTokenName)), "\""));
  }
  return WriteFileAtomically(path, FormatTokens(*tokens), 0600);
}

TokenTable::TokenTable(std::vector<Token> tokens) {
  for (Token& token : tokens) by_hash_[token.sha256] = std::move(token);
}

const Token* TokenTable::Find(absl::string_view secret, absl::Time now) const {
  const auto it = by_hash_.find(Sha256Hex(secret));
  return it == by_hash_.end() || it->second.expires <= now ? nullptr : &it->second;
}

}  // namespace adaptdl::security
