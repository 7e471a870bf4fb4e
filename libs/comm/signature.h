// What the members of a group must agree on when they start a collective. Inside libs/comm only.

#ifndef ADAPTDL_LIBS_COMM_SIGNATURE_H_
#define ADAPTDL_LIBS_COMM_SIGNATURE_H_

#include <cstdint>
#include <string>

#include "libs/comm/communicator.h"

namespace adaptdl::comm {

// Travels in front of every collective, as it lies in memory: the members run on the same kind of processor.
struct Signature {
  Collective::Kind kind = Collective::Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kFloat32;
  uint8_t unused = 0;
  int32_t root = 0;
  int64_t bytes = 0;  // 0 for all-gathers, whose parts may differ in length

  friend bool operator==(const Signature&, const Signature&) = default;
};

Signature SignatureOf(const Collective& collective);

// Of the step that comes before all collectives and is number 0: the members connect to each other.
Signature FormingSignature();

// For example "all-reduce (sum) of 16 bytes of float64".
std::string Describe(const Signature& signature);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_SIGNATURE_H_
