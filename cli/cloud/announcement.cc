#include "cli/cloud/announcement.h"

#include <openssl/bio.h>
#include <openssl/cms.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/openssl.h"
#include "nlohmann/json.hpp"

namespace adaptdl::cli {
namespace {

using certificates::Freed;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using CmsPtr = std::unique_ptr<CMS_ContentInfo, Freed<CMS_ContentInfo_free>>;

constexpr char kMarker[] = "adaptdl-announcement";
constexpr size_t kLineBytes = 64;
// Two certificates and a token are 2 KiB.
constexpr size_t kMaxLines = 512;
// Commands that go on after a break use it again; whoever comes later makes a new cluster.
constexpr absl::Duration kKeyLifetime = absl::Hours(24 * 3650);

struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};

BioPtr Memory(absl::string_view bytes) {
  return BioPtr(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

std::string BytesOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

absl::StatusOr<std::string> Encrypt(const std::string& text, X509* recipient) {
  const std::unique_ptr<STACK_OF(X509), FreeStack> recipients(sk_X509_new_null());
  if (recipients == nullptr || sk_X509_push(recipients.get(), recipient) == 0)
    return certificates::OpensslError("encrypt the announcement");
  const BioPtr plain = Memory(text);
  const CmsPtr cms(CMS_encrypt(recipients.get(), plain.get(), EVP_aes_256_gcm(), CMS_BINARY));
  const BioPtr out(BIO_new(BIO_s_mem()));
  if (cms == nullptr || out == nullptr || i2d_CMS_bio(out.get(), cms.get()) != 1)
    return certificates::OpensslError("encrypt the announcement");
  return BytesOf(out.get());
}

absl::StatusOr<std::string> Decrypt(const std::string& bytes, const RecipientKey& own) {
  const absl::StatusOr<certificates::KeyPtr> key = certificates::KeyFromPem(own.key);
  if (!key.ok()) return key.status();
  const auto certificate = certificates::CertificateFromPem(own.certificate);
  if (!certificate.ok()) return certificate.status();
  const BioPtr in = Memory(bytes);
  const CmsPtr cms(d2i_CMS_bio(in.get(), nullptr));
  const BioPtr out(BIO_new(BIO_s_mem()));
  const bool opened =
      cms != nullptr && out != nullptr &&
      CMS_decrypt(cms.get(), key->get(), certificate->get(), nullptr, out.get(), CMS_BINARY) == 1;
  certificates::ClearErrors();
  if (opened) return BytesOf(out.get());
  return absl::PermissionDeniedError(
      "what the head has told on its console is for another key: the cluster was launched from elsewhere; "
      "use its "
      "profile from there");
}

// The lines' texts in order, of the last announcement; empty: none is complete.
std::string LastComplete(absl::string_view console) {
  std::string complete;
  std::vector<std::string> parts;
  for (const absl::string_view line : absl::StrSplit(console, absl::ByAnyChar("\r\n"))) {
    const size_t at = line.find(kMarker);
    if (at == absl::string_view::npos) continue;
    // MARKER NUMBER/COUNT TEXT
    const std::vector<absl::string_view> words = absl::StrSplit(line.substr(at), ' ', absl::SkipEmpty());
    if (words.size() < 3) continue;
    const std::pair<absl::string_view, absl::string_view> place =
        absl::StrSplit(words[1], absl::MaxSplits('/', 1));
    size_t number = 0;
    size_t count = 0;
    if (!absl::SimpleAtoi(place.first, &number) || !absl::SimpleAtoi(place.second, &count) || number == 0 ||
        number > count || count > kMaxLines)
      continue;
    if (number == 1 || parts.size() != count) parts.assign(count, "");
    parts[number - 1] = std::string(words[2]);
    const bool all =
        std::none_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
    if (!all) continue;
    complete.clear();
    for (const std::string& part : parts) complete += part;
  }
  return complete;
}

}  // namespace

absl::StatusOr<RecipientKey> MakeRecipientKey(absl::Time now) {
  const absl::StatusOr<certificates::KeyPtr> key = certificates::MakeKey();
  if (!key.ok()) return key.status();
  const certificates::Contents contents = {.common_name = "adaptdl cloud",
                                           .dns_name = "client.adaptdl",
                                           .uri = "spiffe://adaptdl/client",
                                           .not_before = now - certificates::kClockSkew,
                                           .not_after = now + kKeyLifetime,
                                           .kind = certificates::Kind::kService};
  const auto certificate = certificates::MakeCertificate(contents, key->get(), nullptr, key->get());
  if (!certificate.ok()) return certificate.status();
  return RecipientKey{.key = certificates::ToPem(key->get()),
                      .certificate = certificates::ToPem(certificate->get())};
}

absl::StatusOr<std::string> Seal(const Announcement& announcement, absl::string_view recipient_certificate) {
  const auto recipient = certificates::CertificateFromPem(recipient_certificate);
  if (!recipient.ok()) return recipient.status();
  const nlohmann::json json = {{"cluster", announcement.cluster},
                               {"authority", announcement.authority},
                               {"token", announcement.token}};
  const absl::StatusOr<std::string> sealed = Encrypt(json.dump(), recipient->get());
  if (!sealed.ok()) return sealed.status();
  const std::string text = absl::Base64Escape(*sealed);
  const size_t count = (text.size() + kLineBytes - 1) / kLineBytes;
  std::string lines;
  for (size_t k = 0; k < count; ++k)
    absl::StrAppend(&lines, kMarker, " ", k + 1, "/", count, " ", text.substr(k * kLineBytes, kLineBytes),
                    "\n");
  return lines;
}

absl::StatusOr<Announcement> FindAnnouncement(absl::string_view console, const RecipientKey& key) {
  const std::string text = LastComplete(console);
  if (text.empty()) return absl::NotFoundError("the head has told nothing on its console yet");
  std::string bytes;
  if (!absl::Base64Unescape(text, &bytes))
    return absl::NotFoundError("what the head has told on its console is garbled");
  const absl::StatusOr<std::string> opened = Decrypt(bytes, key);
  if (!opened.ok()) return opened.status();
  const nlohmann::json json = nlohmann::json::parse(*opened, nullptr, /*allow_exceptions=*/false);
  Announcement announcement;
  for (const auto& [name, value] :
       {std::pair{"cluster", &announcement.cluster}, std::pair{"authority", &announcement.authority},
        std::pair{"token", &announcement.token}}) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_string())
      return absl::DataLossError(absl::StrCat("the head's announcement has no ", name));
    *value = json[name].get<std::string>();
  }
  return announcement;
}

}  // namespace adaptdl::cli
