#include "libs/service/bio_pair.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace adaptdl::service {
namespace {

// Bytes on their way in one direction.
class Way {
 public:
  size_t size() const { return bytes_.size() - begin_; }

  size_t Put(const char* data, size_t size) {
    size = std::min(size, kBioPairBytes - this->size());
    // Whoever never takes the last byte would have the rest pile up before it.
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(begin_));
    begin_ = 0;
    bytes_.insert(bytes_.end(), data, data + size);
    return size;
  }

  size_t Take(char* data, size_t size) {
    size = std::min(size, this->size());
    if (size == 0) return 0;
    std::memcpy(data, bytes_.data() + begin_, size);
    begin_ += size;
    // An assignment of {} would keep the memory.
    if (begin_ == bytes_.size()) *this = Way();
    return size;
  }

 private:
  std::vector<char> bytes_;
  size_t begin_ = 0;
};

struct End {
  // What this end reads. The other end writes to it.
  Way incoming;
  // Null: it was freed.
  End* other = nullptr;
};

End* EndOf(BIO* bio) { return static_cast<End*>(BIO_get_data(bio)); }

int WriteTo(BIO* bio, const char* data, int size) noexcept {
  BIO_clear_retry_flags(bio);
  End* const other = EndOf(bio)->other;
  if (other == nullptr) return -1;
  if (size <= 0) return 0;
  const size_t written = other->incoming.Put(data, static_cast<size_t>(size));
  if (written > 0) return static_cast<int>(written);
  BIO_set_retry_write(bio);
  return -1;
}

int ReadFrom(BIO* bio, char* data, int size) noexcept {
  BIO_clear_retry_flags(bio);
  End* const end = EndOf(bio);
  if (size <= 0) return 0;
  const size_t read = end->incoming.Take(data, static_cast<size_t>(size));
  if (read > 0) return static_cast<int>(read);
  if (end->other == nullptr) return 0;
  BIO_set_retry_read(bio);
  return -1;
}

long ControlEnd(BIO* bio, int command, long /*number*/, void* /*pointer*/) noexcept {
  const End& end = *EndOf(bio);
  switch (command) {
    case BIO_CTRL_PENDING:
      return static_cast<long>(end.incoming.size());
    case BIO_CTRL_WPENDING:
      return end.other != nullptr ? static_cast<long>(end.other->incoming.size()) : 0;
    case BIO_CTRL_EOF:
      return end.other == nullptr && end.incoming.size() == 0 ? 1 : 0;
    case BIO_CTRL_FLUSH:
    case BIO_CTRL_DUP:
      return 1;
    default:
      return 0;
  }
}

int FreeEnd(BIO* bio) noexcept {
  const std::unique_ptr<End> end(EndOf(bio));
  if (end != nullptr && end->other != nullptr) end->other->other = nullptr;
  BIO_set_data(bio, nullptr);
  return 1;
}

BIO_METHOD* MakeMethod() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lean pair");
  if (method == nullptr) return nullptr;
  BIO_meth_set_write(method, &WriteTo);
  BIO_meth_set_read(method, &ReadFrom);
  BIO_meth_set_ctrl(method, &ControlEnd);
  BIO_meth_set_destroy(method, &FreeEnd);
  return method;
}

BIO* MakeEnd() {
  // For the life of the program, as those of OpenSSL.
  static BIO_METHOD* const method = MakeMethod();
  if (method == nullptr) return nullptr;
  BIO* const bio = BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, new End());
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace

bool MakeBioPair(BIO** one, BIO** other) {
  BIO* const first = MakeEnd();
  BIO* const second = first != nullptr ? MakeEnd() : nullptr;
  if (second == nullptr) {
    BIO_free(first);
    return false;
  }
  EndOf(first)->other = EndOf(second);
  EndOf(second)->other = EndOf(first);
  *one = first;
  *other = second;
  return true;
}

}  // namespace adaptdl::service
