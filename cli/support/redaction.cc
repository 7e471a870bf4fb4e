#include "cli/support/redaction.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adaptdl::cli {
namespace {

constexpr char kRedacted[] = "<redacted>";

// In names of what is nobody's business.
constexpr absl::string_view kSecretWords[] = {"key",        "token",   "secret",   "passw",  "pwd",
                                              "credential", "auth",    "cert",     "cookie", "login",
                                              "dsn",        "session", "signature"};

// Libraries whose settings hold none.
constexpr absl::string_view kHarmlessPrefixes[] = {"OMP_",     "MKL_",     "OPENBLAS_", "NCCL_",
                                                   "CUDA_",    "CUBLAS_",  "CUDNN_",    "TORCH_",
                                                   "PYTORCH_", "ADAPTDL_", "LC_",       "PYTHON"};
constexpr absl::string_view kHarmlessNames[] = {"LANG", "TZ", "PATH", "HOME", "LD_LIBRARY_PATH", "TERM"};

bool SoundsSecret(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
                     [&](absl::string_view word) { return absl::StrContains(lower, word); });
}

bool IsFigure(absl::string_view value) {
  double number = 0;
  bool truth = false;
  return value.empty() || (value.size() <= 20 && absl::SimpleAtod(value, &number)) ||
         absl::SimpleAtob(value, &truth);
}

// "--api-key=x", "--api-key x" and "API_KEY=x"; `secret_follows` is for the next one.
std::string RedactedWord(const std::string& word, bool* secret_follows) {
  if (std::exchange(*secret_follows, false) && !absl::StartsWith(word, "-")) return kRedacted;
  const size_t equals = word.find('=');
  const absl::string_view name = absl::string_view(word).substr(0, equals);
  const bool is_flag = absl::StartsWith(name, "-");
  if (equals == std::string::npos) {
    *secret_follows = is_flag && SoundsSecret(name);
    return WithoutCredentials(word);
  }
  const absl::string_view value = absl::string_view(word).substr(equals + 1);
  const bool is_secret = SoundsSecret(name) && !IsFigure(value);
  return is_secret ? absl::StrCat(name, "=", kRedacted) : WithoutCredentials(word);
}

template <typename Words>
void RedactWords(Words* words) {
  bool secret_follows = false;
  for (std::string& word : *words) word = RedactedWord(word, &secret_follows);
}

}  // namespace

bool MayBeShown(absl::string_view name, absl::string_view value) {
  if (SoundsSecret(name)) return false;
  if (IsFigure(value)) return true;
  const bool is_librarys =
      std::any_of(std::begin(kHarmlessPrefixes), std::end(kHarmlessPrefixes),
                  [&](absl::string_view prefix) { return absl::StartsWith(name, prefix); }) ||
      std::find(std::begin(kHarmlessNames), std::end(kHarmlessNames), name) != std::end(kHarmlessNames);
  return is_librarys && WithoutCredentials(value) == value;
}

std::string WithoutCredentials(absl::string_view text) {
  std::string result;
  while (true) {
    const size_t scheme = text.find("://");
    if (scheme == absl::string_view::npos) return absl::StrCat(result, text);
    const size_t begin = scheme + 3;
    absl::StrAppend(&result, text.substr(0, begin));
    text.remove_prefix(begin);
    const absl::string_view authority = text.substr(0, text.find_first_of("/?# \t\n\"'<>"));
    const size_t at = authority.rfind('@');
    if (at == absl::string_view::npos) continue;
    absl::StrAppend(&result, kRedacted);
    text.remove_prefix(at);
  }
}

v1::Job Redacted(const v1::Job& job) {
  v1::Job result = job;
  v1::ReplicaTemplate* replica = result.mutable_spec()->mutable_template_();
  RedactWords(replica->mutable_command());
  RedactWords(replica->mutable_args());
  for (v1::EnvironmentVariable& variable : *replica->mutable_env()) {
    if (!MayBeShown(variable.name(), variable.value())) variable.set_value(kRedacted);
  }
  if (replica->has_python()) {
    replica->mutable_python()->set_requirements(WithoutCredentials(replica->python().requirements()));
  }
  for (v1::DataSet& data : *replica->mutable_data_sets()) data.set_url(WithoutCredentials(data.url()));
  return result;
}

}  // namespace adaptdl::cli
