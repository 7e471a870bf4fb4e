// Credentials of a profile of the shared credentials file, which is read each time. Part of the chain (credential_chain.h).

#ifndef ADAPTDL_LIBS_AWS_PROFILE_CREDENTIALS_H_
#define ADAPTDL_LIBS_AWS_PROFILE_CREDENTIALS_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "libs/aws/credentials.h"

namespace adaptdl::aws {

class ProfileCredentials final : public CredentialPlace {
 public:
  // `is_asked_for`: a person has named the profile, which then has to be there.
  ProfileCredentials(std::string file, std::string profile, bool is_asked_for)
      : file_(std::move(file)), profile_(std::move(profile)), is_asked_for_(is_asked_for) {}

  std::string name() const override { return file_; }
  absl::StatusOr<Credentials> Fetch(const std::stop_token& stop) override;

 private:
  absl::Status Missing(const std::string& why) const;

  const std::string file_;
  const std::string profile_;
  const bool is_asked_for_;
};

// The settings of a section of an INI file; none if there is no such section. Comments begin with # or ;.
std::optional<std::map<std::string, std::string>> IniSection(absl::string_view text,
                                                             absl::string_view section);

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_PROFILE_CREDENTIALS_H_
