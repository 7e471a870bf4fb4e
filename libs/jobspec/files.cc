#include "libs/jobspec/files.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::jobspec {
namespace {

constexpr size_t kDigestLength = 64;

bool HasUpwardPart(absl::string_view path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == "..") return true;
  }
  return false;
}

// Whether it is "s3://BUCKET/PREFIX" or "file:///PATH".
bool IsDataUrl(absl::string_view url) {
  if (HasControl(url)) return false;
  absl::string_view rest = url;
  if (absl::ConsumePrefix(&rest, "s3://")) return !rest.empty() && rest.front() != '/';
  return absl::ConsumePrefix(&rest, "file:///") && !rest.empty() && !HasUpwardPart(rest);
}

}  // namespace

absl::Status CheckDigest(absl::string_view field, absl::string_view digest) {
  const bool valid = digest.size() == kDigestLength && std::all_of(digest.begin(), digest.end(), [](char c) {
                       return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
                     });
  if (valid) return absl::OkStatus();
  return Wrong(field, Show(digest),
               "give the SHA-256 of an archive that was uploaded, 64 lower-case hexadecimal digits");
}

absl::Status CheckCode(const v1::CodeArchive& code) {
  absl::Status status = CheckDigest("spec.template.code.digest", code.digest());
  status.Update(CheckRange("spec.template.code.size", code.size(), 1, kMaxAmount));
  return status;
}

absl::Status CheckFolderInCode(absl::string_view working_directory) {
  if (absl::StartsWith(working_directory, "/") || !HasUpwardPart(working_directory)) return absl::OkStatus();
  return Wrong("spec.template.working_directory", Show(working_directory),
               "leads out of the folder that comes with the job; name a folder in it, without \"..\"");
}

absl::Status CheckDataSets(const google::protobuf::RepeatedPtrField<v1::DataSet>& data_sets) {
  if (data_sets.size() > kMaxDataSets) {
    return Wrong("spec.template.data_sets", absl::StrCat(data_sets.size(), " entries"),
                 absl::StrCat("give at most ", kMaxDataSets));
  }
  absl::Status status;
  std::set<std::string> names;
  for (int i = 0; i < data_sets.size(); ++i) {
    const v1::DataSet& data = data_sets[i];
    const std::string field = absl::StrCat("spec.template.data_sets[", i, "]");
    status.Update(CheckDnsLabel(absl::StrCat(field, ".name"), data.name()));
    if (!names.insert(data.name()).second) {
      status.Update(Wrong(absl::StrCat(field, ".name"), Show(data.name()), "is there twice; name each once"));
    }
    if (data.url().size() > kMaxUrlLength || !IsDataUrl(data.url())) {
      status.Update(Wrong(absl::StrCat(field, ".url"), Show(data.url()),
                          absl::StrCat("give s3://BUCKET/PREFIX, or file:///PATH of a folder that all nodes "
                                       "share, of at most ",
                                       kMaxUrlLength, " characters")));
    }
  }
  return status;
}

}  // namespace adaptdl::jobspec
