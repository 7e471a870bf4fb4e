// Sums over all replicas (losses, counts) that survive restarts:
//
//   adaptdl::Accumulator sums(*job);
//   for (auto& batch : loader) sums["loss"] += ...;      // local, cheap
//   sums.Synchronize();                                  // on all replicas: sums over all of them
//   double mean = sums["loss"] / sums["samples"];
//
// What is added stays local, and reads do not show it, until Synchronize(); after it reads give the same
// totals on all replicas. A checkpoint synchronises too, without showing it. An accumulator made within an
// epoch belongs to it. What a replica adds while its micro-batch is a stand-in for an empty share (the
// loader's weight() is 0) does not count. When an epoch is entered again after a restart, a Synchronize()
// that was done before gives what it gave then, and what code before the interrupted loop adds once more does
// not count. When a replica is lost in a loop's step and that step is begun anew, what was added in the first
// attempt does not count, and what the lost replica has added since the last Synchronize() is lost with it.
//
// Thread-safety: the training thread only. The job must outlive it.

#ifndef ADAPTDL_ACCUMULATOR_H_
#define ADAPTDL_ACCUMULATOR_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "adaptdl/job.h"

namespace adaptdl {

class Accumulator {
 public:
  explicit Accumulator(Job& job);
  ~Accumulator();
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;

  // Adds to the total of `key`, from the next Synchronize() on.
  void Add(const std::string& key, double value);

  // Adds, or subtracts, the value of each key.
  void Update(const std::map<std::string, double>& values);
  void Subtract(const std::map<std::string, double>& values);

  // Forgets all totals, and what was added since the last Synchronize(). All replicas call it at the same
  // point. A Clear() that was done before a restart is not repeated.
  void Clear();

  // Total of `key` as of the last Synchronize(). 0 if there is none.
  double Get(const std::string& key) const;

  // Collective: all replicas call it at the same point.
  const std::map<std::string, double>& Synchronize();

  // sums["loss"] += x; double loss = sums["loss"];
  class Entry {
   public:
    Entry(Accumulator* accumulator, std::string key) : accumulator_(accumulator), key_(std::move(key)) {}
    Entry& operator+=(double value) {
      accumulator_->Add(key_, value);
      return *this;
    }
    Entry& operator-=(double value) { return *this += -value; }
    operator double() const { return accumulator_->Get(key_); }

   private:
    Accumulator* const accumulator_;
    const std::string key_;
  };
  Entry operator[](const std::string& key) { return Entry(this, key); }

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_ACCUMULATOR_H_
