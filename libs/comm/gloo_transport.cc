// Gloo's TCP pairs and unbound buffers behind transport.h: all that libadaptdl_gloo.so holds.

#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gloo/transport/address.h"
#include "gloo/transport/context.h"
#include "gloo/transport/pair.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"
#include "libs/comm/transport.h"

namespace adaptdl::comm {
namespace {

// A wait of Gloo's that runs out closes all its connections. Whoever watches the deadlines ends waits by
// Abort().
constexpr std::chrono::milliseconds kNoTimeout = std::chrono::hours(24 * 365);

class GlooRegion final : public Transport::Region {
 public:
  explicit GlooRegion(std::unique_ptr<gloo::transport::UnboundBuffer> buffer) : buffer_(std::move(buffer)) {}

  Transport::Result Send(int peer, uint64_t slot, size_t offset, size_t bytes) override {
    return Try([&] {
      buffer_->send(peer, slot, offset, bytes);
      return true;
    });
  }

  Transport::Result Receive(int peer, uint64_t slot, size_t offset, size_t bytes) override {
    return Try([&] {
      buffer_->recv(peer, slot, offset, bytes);
      return true;
    });
  }

  Transport::Result WaitSend() override {
    return Try([&] { return buffer_->waitSend(nullptr, kNoTimeout); });
  }

  Transport::Result WaitReceive() override {
    return Try([&] { return buffer_->waitRecv(nullptr, kNoTimeout); });
  }

  void Abort() override {
    buffer_->abortWaitSend();
    buffer_->abortWaitRecv();
  }

  std::string error() const override { return error_; }

 private:
  template <typename Function>
  Transport::Result Try(Function function) {
    try {
      return function() ? Transport::Result::kDone : Transport::Result::kAborted;
    } catch (const std::exception& error) {
      error_ = error.what();
      return Transport::Result::kBroken;
    }
  }

  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  std::string error_;
};

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

class GlooTransport final : public Transport {
 public:
  // Throws what Gloo throws.
  explicit GlooTransport(const TransportOptions& options) {
    gloo::transport::tcp::attr listen;
    listen.hostname = options.host.empty() ? HostName() : options.host;
    context_ = gloo::transport::tcp::CreateDevice(listen)->createContext(options.rank, options.size);
    // Gloo waits for connections five times as long as it is told to.
    context_->setTimeout(std::chrono::milliseconds(options.timeout_ms / 5 + 1));
    for (int peer = 0; peer < options.size; ++peer) {
      if (peer != options.rank) context_->createPair(peer);
    }
  }

  // Each connection has an address of its own: those of all, in order of rank, each of the same length.
  std::string address() const override {
    std::string all;
    size_t length = 0;
    for (int peer = 0; peer < context_->size; ++peer) {
      if (peer == context_->rank) continue;
      const std::vector<char> bytes = context_->getPair(peer)->address().bytes();
      length = bytes.size();
      all.append(bytes.begin(), bytes.end());
    }
    all.insert(length * context_->rank, length, '\0');
    return all;
  }

  Result Connect(int peer, const std::string& its_address, std::string* error) override {
    try {
      const size_t length = its_address.size() / context_->size;
      const char* mine = its_address.data() + length * context_->rank;
      if (length == 0) throw std::invalid_argument("an empty address");
      context_->getPair(peer)->connect(std::vector<char>(mine, mine + length));
      return Result::kDone;
    } catch (const std::exception& failure) {
      *error = failure.what();
      return Result::kBroken;
    }
  }

  void Close() override {
    for (int peer = 0; peer < context_->size; ++peer) {
      if (peer != context_->rank) context_->getPair(peer)->close();
    }
  }

  std::unique_ptr<Region> Map(void* data, size_t bytes) override {
    return std::make_unique<GlooRegion>(context_->createUnboundBuffer(data, bytes));
  }

 private:
  std::shared_ptr<gloo::transport::Context> context_;
};

}  // namespace
}  // namespace adaptdl::comm

extern "C" __attribute__((visibility("default"))) adaptdl::comm::Transport* AdaptdlCreateGlooTransport(
    const adaptdl::comm::TransportOptions* options, std::string* error) {
  try {
    return new adaptdl::comm::GlooTransport(*options);
  } catch (const std::exception& failure) {
    *error = failure.what();
    return nullptr;
  }
}
