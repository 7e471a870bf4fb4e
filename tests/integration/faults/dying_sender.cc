// Preloaded into a replica, lets it die between two messages to the others, so that one of them has its part of a
// collective, and another has not:
//
//   env LD_PRELOAD=libdying_sender.so DYING_SENDER_FOLDER=/tmp/orders program
//
// Once there is a file "<pid>.dies" in the folder, which holds a number, so many messages more are sent, and the
// next one kills the process. Messages are those of the library's own transport, which never wait.

#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

// The number in the file. Negative: there is none.
int ReadOrder() {
  const char* const folder = std::getenv("DYING_SENDER_FOLDER");
  if (folder == nullptr) return -1;
  const std::string path = std::string(folder) + "/" + std::to_string(getpid()) + ".dies";
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return -1;
  int left = -1;
  if (std::fscanf(file, "%d", &left) != 1) left = -1;
  std::fclose(file);
  return left;
}

// Called by one thread at a time, which runs the collective.
void CountMessage() {
  static int left = -1;
  if (left < 0) left = ReadOrder();
  if (left == 0) kill(getpid(), SIGKILL);
  if (left > 0) --left;
}

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto next =
      reinterpret_cast<ssize_t (*)(int, const msghdr*, int)>(dlsym(RTLD_NEXT, "sendmsg"));
  if ((flags & MSG_DONTWAIT) != 0) CountMessage();
  return next(socket, message, flags);
}
