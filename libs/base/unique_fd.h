// A file descriptor with one owner, who closes it at the end. -1: none.
//
// Thread-safety: as that of an int.

#ifndef ADAPTDL_LIBS_BASE_UNIQUE_FD_H_
#define ADAPTDL_LIBS_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace adaptdl {

class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }

  // The caller owns it from here on.
  int Release() { return std::exchange(fd_, -1); }

  // Closes what it has, and takes `fd`.
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_UNIQUE_FD_H_
