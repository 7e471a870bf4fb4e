#include "libs/comm/gloo_loader.h"

#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/shared_library.h"

namespace adaptdl::comm {
namespace {

using Factory = std::remove_pointer_t<TransportFactory>;

absl::StatusOr<Factory*> LoadFactory() {
  const absl::StatusOr<SharedLibrary> library =
      SharedLibrary::Open(LibraryPlaces("libadaptdl_gloo.so"), "put it beside the program or into ../lib");
  if (!library.ok()) return library.status();
  return library->Find<Factory>(kGlooTransportFactory);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> CreateGlooTransport(const TransportOptions& options) {
  // Looked for once: it stays where it is.
  static const auto* const factory = new absl::StatusOr<Factory*>(LoadFactory());
  if (!factory->ok()) return factory->status();
  std::string error;
  std::unique_ptr<Transport> transport((**factory)(&options, &error));
  if (transport == nullptr) return absl::UnavailableError(absl::StrCat("Gloo cannot listen: ", error));
  return transport;
}

}  // namespace adaptdl::comm
