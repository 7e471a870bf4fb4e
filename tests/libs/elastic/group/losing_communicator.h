// A communicator whose collectives fail at one member although they have come to their end, as when the
// connection to a lost member breaks after the others have received their part.
//
// Thread-safety: as of the communicator.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_GROUP_LOSING_COMMUNICATOR_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_GROUP_LOSING_COMMUNICATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "libs/comm/communicator.h"

namespace adaptdl::elastic {

class LosingCommunicator final : public comm::Communicator {
 public:
  // `fails` is asked once for each collective that has ended well here.
  using Fails = std::function<bool(comm::Collective::Kind kind)>;

  LosingCommunicator(std::unique_ptr<comm::Communicator> inner, Fails fails)
      : inner_(std::move(inner)), fails_(std::move(fails)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  void SetTimeout(absl::Duration timeout) override { inner_->SetTimeout(timeout); }

 private:
  class LosingWork final : public comm::Work {
   public:
    LosingWork(LosingCommunicator* owner, comm::Collective::Kind kind, std::unique_ptr<comm::Work> inner)
        : owner_(owner), kind_(kind), inner_(std::move(inner)) {}
    absl::Status Wait() override {
      if (absl::Status status = inner_->Wait(); !status.ok()) return status;
      if (!owner_->fails_(kind_)) return absl::OkStatus();
      owner_->Abort("a member was lost");
      return absl::UnavailableError("a member was lost");
    }

   private:
    LosingCommunicator* const owner_;
    const comm::Collective::Kind kind_;
    const std::unique_ptr<comm::Work> inner_;
  };

  std::unique_ptr<comm::Work> Start(comm::Collective collective) override {
    const comm::Collective::Kind kind = collective.kind;
    std::unique_ptr<comm::Work> work;
    switch (kind) {
      case comm::Collective::Kind::kAllReduce:
        work = inner_->AllReduceAsync(collective.buffer, collective.op);
        break;
      case comm::Collective::Kind::kAllGather:
        work = inner_->AllGatherAsync(std::move(collective.value), collective.values);
        break;
      case comm::Collective::Kind::kBroadcast:
        work = inner_->BroadcastAsync(collective.buffer, collective.root);
        break;
      case comm::Collective::Kind::kBarrier:
        work = inner_->AllGatherAsync("", &barrier_);
        break;
    }
    return std::make_unique<LosingWork>(this, kind, std::move(work));
  }

  const std::unique_ptr<comm::Communicator> inner_;
  const Fails fails_;
  std::vector<std::string> barrier_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_GROUP_LOSING_COMMUNICATOR_H_
