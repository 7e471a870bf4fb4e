// Messages between the members of a group. Inside libs/comm only.

#ifndef ADAPTDL_LIBS_COMM_TRANSPORT_H_
#define ADAPTDL_LIBS_COMM_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adaptdl::comm {

struct TransportOptions {
  int rank = 0;
  int size = 1;
  std::string host;        // on whose interface to listen; empty: that of the machine's host name
  int64_t timeout_ms = 0;  // of connecting to all, from the first Connect() on
};

// Used by one thread at a time with all its regions, but for Close() and Region::Abort(), which any may call.
class Transport {
 public:
  enum class Result { kDone, kAborted, kBroken };

  // Memory that messages are sent from and received into. Once destroyed, the memory is not touched any more.
  class Region {
   public:
    virtual ~Region() = default;
    // Start to send or receive `bytes` bytes at `offset`. A message goes to the receive of the same slot,
    // first come first served; the receive may be for more bytes than come.
    virtual Result Send(int peer, uint64_t slot, size_t offset, size_t bytes) = 0;
    virtual Result Receive(int peer, uint64_t slot, size_t offset, size_t bytes) = 0;
    // Block until one send or receive is done that was not waited for before.
    virtual Result WaitSend() = 0;
    virtual Result WaitReceive() = 0;
    // Ends the waits under way, or the next ones.
    virtual void Abort() = 0;
    // What broke.
    virtual std::string error() const = 0;
  };

  virtual ~Transport() = default;

  // Where this member can be reached. For Connect() of the others.
  virtual std::string address() const = 0;

  // Connects to member `peer`, which does the same.
  virtual Result Connect(int peer, const std::string& its_address, std::string* error) = 0;

  // Ends Connect(); nothing works afterwards.
  virtual void Close() = 0;

  virtual std::unique_ptr<Region> Map(void* data, size_t bytes) = 0;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_TRANSPORT_H_
