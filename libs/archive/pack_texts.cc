#include "libs/archive/pack_texts.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/archive/tar.h"

namespace adaptdl::archive {
namespace {

absl::Status Failure(::archive* tar, const std::string& what) {
  return absl::InternalError(absl::StrCat("can't ", what, ": ", TarError(tar)));
}

}  // namespace

absl::Status PackTexts(const std::vector<TextFile>& files, absl::Time time, int fd) {
  const TarWriter writer(archive_write_new());
  ::archive* tar = writer.get();
  if (archive_write_set_format_gnutar(tar) != ARCHIVE_OK ||
      archive_write_add_filter_zstd(tar) != ARCHIVE_OK || archive_write_open_fd(tar, fd) != ARCHIVE_OK) {
    return Failure(tar, "begin the archive");
  }
  for (const TextFile& file : files) {
    const TarEntry entry(archive_entry_new());
    archive_entry_set_pathname(entry.get(), file.name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), S_IRUSR | S_IWUSR);
    archive_entry_set_mtime(entry.get(), absl::ToTimeT(time), 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(file.text.size()));
    if (archive_write_header(tar, entry.get()) != ARCHIVE_OK ||
        archive_write_data(tar, file.text.data(), file.text.size()) !=
            static_cast<la_ssize_t>(file.text.size())) {
      return Failure(tar, absl::StrCat("put ", file.name, " into the archive"));
    }
  }
  return archive_write_close(tar) == ARCHIVE_OK ? absl::OkStatus() : Failure(tar, "end the archive");
}

}  // namespace adaptdl::archive
