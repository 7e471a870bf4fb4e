// The store behind a TcpRendezvous. Included by .cc files of this folder only.

#ifndef ADAPTDL_LIBS_COMM_RENDEZVOUS_STORE_H_
#define ADAPTDL_LIBS_COMM_RENDEZVOUS_STORE_H_

#include "libs/comm/gloo_communicator.h"
#include "libs/comm/torch_compat.h"

namespace adaptdl::comm {

struct TcpRendezvous::Store {
  c10::intrusive_ptr<c10d::Store> store;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_RENDEZVOUS_STORE_H_
