#include "cli/code/shipment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/progress_bar.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "libs/base/backoff.h"
#include "libs/base/file.h"
#include "libs/rpc/retry_info.h"
#include "libs/rpc/status.h"

namespace adaptdl::cli {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;

absl::StatusOr<UniqueFd> OpenUnnamed() {
  const char* variable = std::getenv("TMPDIR");
  const std::string folder = variable != nullptr && *variable != '\0' ? variable : "/tmp";
  std::string path = folder + "/adaptdl-submit-XXXXXX";
  UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("a file in ", folder, ", which TMPDIR names"));
  unlink(path.c_str());
  return file;
}

// Bytes [offset, offset + size) of the file, or fewer at its end.
absl::StatusOr<std::string> ReadPiece(int file, int64_t offset, int64_t size) {
  std::string piece(static_cast<size_t>(size), '\0');
  ssize_t got = -1;
  do {
    got = pread(file, piece.data(), piece.size(), offset);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, "read the packed folder");
  if (got == 0) return absl::DataLossError("the packed folder has become shorter");
  piece.resize(static_cast<size_t>(got));
  return piece;
}

class Uploader {
 public:
  Uploader(const Context& context, Client& client, const std::string& name_space, const PackedFolder& packed)
      : clock_(*context.clock),
        client_(client),
        name_space_(name_space),
        packed_(packed),
        bar_(context, "uploading", packed.archive.size) {}

  absl::Status Run() {
    absl::Status status;
    absl::Time give_up;
    Backoff backoff(kFirstRetryDelay, kLongestRetryDelay);
    int64_t most = -1;
    bool was_void = false;
    while (true) {
      const absl::StatusOr<v1::StatCodeResponse> there = Stat();
      if (!there.ok()) return there.status();
      if (there->complete()) return absl::OkStatus();
      if (there->received() > most) {
        most = there->received();
        give_up = clock_.Steady() + kLongestOutage;
        backoff.Reset();
      } else if (clock_.Steady() >= give_up) {
        return status;
      }
      status = Send(there->received());
      if (status.ok()) return status;
      // What was there before may have been damaged by a crash, and is gone now.
      if (absl::IsInvalidArgument(status) && there->received() > 0 && !std::exchange(was_void, true)) {
        most = -1;
        continue;
      }
      if (!MayGoOn(status)) return status;
      clock_.SleepFor(std::max(backoff.Next(), rpc::RetryDelayOf(status).value_or(absl::ZeroDuration())));
    }
  }

 private:
  static bool MayGoOn(const absl::Status& status) {
    return rpc::IsEndpointFailure(status) || absl::IsCancelled(status) || absl::IsAborted(status) ||
           rpc::RetryDelayOf(status).has_value();
  }

  absl::StatusOr<v1::StatCodeResponse> Stat() {
    v1::StatCodeRequest request;
    request.set_namespace_(name_space_);
    request.set_digest(packed_.archive.digest);
    const absl::StatusOr<v1::StatCodeResponse> there = client_.Call(&Codes::StatCode, request);
    if (absl::IsUnimplemented(there.status())) {
      return absl::UnimplementedError(
          absl::StrCat(there.status().message(),
                       "; --no-code submits the job without its folder, for nodes that have it"));
    }
    if (!there.ok() || there->complete() || packed_.archive.size <= there->limit()) return there;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the packed folder has ", FormatBytes(packed_.archive.size), "B, and the supervisor takes ",
        FormatBytes(there->limit()), "B: leave out what the job does not need by lines in ",
        archive::kIgnoreFile, ", or have the supervisor's --max-code-archive raised"));
  }

  // From there to the end. OK: the supervisor has all of it.
  absl::Status Send(int64_t offset) {
    grpc::ClientContext context;
    v1::UploadCodeResponse response;
    const auto stream = client_.codes()->UploadCode(&context, &response);
    absl::Status mine;
    for (int64_t at = offset; at < packed_.archive.size;) {
      absl::StatusOr<std::string> piece =
          ReadPiece(packed_.file.get(), at, std::min(kPieceBytes, packed_.archive.size - at));
      if (!piece.ok()) {
        mine = piece.status();
        context.TryCancel();
        break;
      }
      v1::UploadCodeRequest request;
      if (at == offset) Begin(offset, &request);
      at += static_cast<int64_t>(piece->size());
      request.set_data(*std::move(piece));
      // The end of the stream says why.
      if (!stream->Write(request)) break;
      bar_.Set(at);
    }
    if (mine.ok()) stream->WritesDone();
    const grpc::Status end = stream->Finish();
    if (!mine.ok()) return mine;
    if (end.ok() && response.complete()) return absl::OkStatus();
    if (end.ok())
      return absl::AbortedError(absl::StrCat("the supervisor has only ", response.received(), " bytes"));
    absl::Status status = client_.Explain(end);
    if (rpc::IsEndpointFailure(status) || absl::IsCancelled(status)) client_.GoOn();
    return status;
  }

  void Begin(int64_t offset, v1::UploadCodeRequest* request) const {
    request->set_namespace_(name_space_);
    request->set_digest(packed_.archive.digest);
    request->set_size(packed_.archive.size);
    request->set_offset(offset);
  }

  const Clock& clock_;
  Client& client_;
  const std::string& name_space_;
  const PackedFolder& packed_;
  ProgressBar bar_;
};

}  // namespace

absl::StatusOr<PackedFolder> PackForJob(const Context& context, const std::string& folder,
                                        const archive::FolderContents& contents) {
  absl::StatusOr<UniqueFd> file = OpenUnnamed();
  if (!file.ok()) return file.status();
  ProgressBar bar(context, "packing", contents.bytes);
  const absl::StatusOr<archive::Packed> packed =
      archive::PackFolder(folder, contents, file->get(), [&bar](int64_t bytes) { bar.Set(bytes); });
  if (absl::IsResourceExhausted(packed.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(packed.status().message(), "; TMPDIR names the folder that it is packed in"));
  }
  if (!packed.ok()) return packed.status();
  return PackedFolder{*packed, *std::move(file)};
}

absl::Status UploadArchive(const Context& context, Client& client, const std::string& name_space,
                           const PackedFolder& packed) {
  return Uploader(context, client, name_space, packed).Run();
}

absl::StatusOr<v1::CodeArchive> ShipFolder(const Context& context, Client& client,
                                           const std::string& name_space, const std::string& folder,
                                           const archive::FolderContents& contents) {
  const absl::StatusOr<PackedFolder> packed = PackForJob(context, folder, contents);
  if (!packed.ok()) return packed.status();
  if (absl::Status status = UploadArchive(context, client, name_space, *packed); !status.ok()) return status;
  v1::CodeArchive code;
  code.set_digest(packed->archive.digest);
  code.set_size(packed->archive.size);
  return code;
}

}  // namespace adaptdl::cli
