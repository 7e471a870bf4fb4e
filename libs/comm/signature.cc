#include "libs/comm/signature.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/device/data_type.h"

namespace adaptdl::comm {
namespace {

const char* NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kOr:
      return "or";
  }
  return "unknown";
}

constexpr int32_t kForming = -1;  // no root

}  // namespace

Signature FormingSignature() {
  Signature signature;
  signature.root = kForming;
  return signature;
}

Signature SignatureOf(const Collective& collective) {
  Signature signature;
  signature.kind = collective.kind;
  if (collective.kind == Collective::Kind::kAllGather || collective.kind == Collective::Kind::kBarrier) {
    return signature;
  }
  signature.op = collective.op;
  signature.type = collective.buffer.type;
  signature.root = collective.root;
  signature.bytes = collective.buffer.bytes();
  return signature;
}

std::string Describe(const Signature& signature) {
  switch (signature.kind) {
    case Collective::Kind::kAllReduce:
      return absl::StrCat("all-reduce (", NameOf(signature.op), ") of ", signature.bytes, " bytes of ",
                          device::NameOf(signature.type));
    case Collective::Kind::kBroadcast:
      return absl::StrCat("broadcast from rank ", signature.root, " of ", signature.bytes, " bytes of ",
                          device::NameOf(signature.type));
    case Collective::Kind::kAllGather:
      return "all-gather";
    case Collective::Kind::kBarrier:
      return signature.root == kForming ? "forming the group" : "barrier";
  }
  return "unknown collective";
}

}  // namespace adaptdl::comm
