// A user of one namespace who keeps a book of what the supervisor has acknowledged, and compares.
//
// Each operation has one request id, with which it is repeated until it is acknowledged or refused, over any
// number of supervisors that die meanwhile. So at any time at most one operation may have been carried out
// without being in the book.

#ifndef ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_TENANT_H_
#define ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_TENANT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/quota_service.grpc.pb.h"
#include "tests/integration/store_crash/participant.h"

namespace adaptdl::integration {

class Tenant final : public Participant {
 public:
  Tenant(std::string name_space, unsigned seed) : namespace_(std::move(name_space)), random_(seed) {}

  void Connect(const std::shared_ptr<grpc::Channel>& channel) override;
  absl::Status Operate() override;
  absl::Status Check() override;
  int64_t acknowledged() const override { return acknowledged_; }

 private:
  enum class Kind { kSubmit, kCancel, kDelete, kSetQuota, kRemoveQuota };
  struct Operation {
    Kind kind = Kind::kSubmit;
    std::string request_id;
    std::string job;
    // The job's argument, or the quota: something to recognise it by.
    int32_t value = 0;
  };
  struct Entry {
    int32_t value = 0;
    bool cancelled = false;
    bool operator==(const Entry&) const = default;
  };
  struct Book {
    std::map<std::string, Entry> jobs;
    std::optional<int32_t> quota;
    bool operator==(const Book&) const = default;
  };

  Operation Draw();
  absl::Status Request(const Operation& operation);
  // Whether the supervisor must carry it out.
  bool IsValid(const Operation& operation) const;
  static void Apply(const Operation& operation, Book* book);
  absl::StatusOr<Book> Read();
  absl::Status CheckEvents(const Book& book);
  static std::string ToString(const Book& book);

  const std::string namespace_;
  std::mt19937 random_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::QuotaService::Stub> quotas_;
  Book book_;
  std::optional<Operation> pending_;
  int64_t next_name_ = 0;
  int64_t acknowledged_ = 0;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_TENANT_H_
