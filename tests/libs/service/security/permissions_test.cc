#include "libs/service/security/permissions.h"

#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/compiler/importer.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace adaptdl::security {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using ::testing::ContainerEq;

class Errors final : public google::protobuf::compiler::MultiFileErrorCollector {
 public:
  void AddError(const std::string& file, int line, int, const std::string& message) override {
    ADD_FAILURE() << file << ":" << line << ": " << message;
  }
};

// All services of the public contract, from its sources.
class PermissionsTest : public ::testing::Test {
 protected:
  PermissionsTest() : importer_(&tree_, &errors_) {
    const std::filesystem::path root = std::filesystem::path(ADAPTDL_SOURCE_DIR) / "proto";
    tree_.MapPath("", root.string());
    tree_.MapPath("", ADAPTDL_PROTOBUF_INCLUDE);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".proto") continue;
      AddMethods(importer_.Import(std::filesystem::relative(entry.path(), root).string()));
    }
  }

  void AddMethods(const FileDescriptor* file) {
    ASSERT_NE(file, nullptr);
    for (int i = 0; i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) methods_.insert(file->service(i)->method(k));
    }
  }

  static std::string PathOf(const MethodDescriptor& method) {
    return absl::StrCat("/", method.service()->full_name(), "/", method.name());
  }

  google::protobuf::compiler::DiskSourceTree tree_;
  Errors errors_;
  google::protobuf::compiler::Importer importer_;
  std::set<const MethodDescriptor*> methods_;
};

// Field "namespace" of a job, in the request or in its field "job".
bool NamesANamespace(const Descriptor& message) {
  if (message.FindFieldByName("namespace") != nullptr) return true;
  const auto* job = message.FindFieldByName("job");
  return job != nullptr && job->message_type() != nullptr &&
         job->message_type()->full_name() == "adaptdl.v1.Job";
}

TEST_F(PermissionsTest, NamesEachMethodOfEachServiceOnceAndNoOther) {
  std::set<std::string> expected = {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
                                    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
  for (const MethodDescriptor* method : methods_) expected.insert(PathOf(*method));
  std::set<std::string> named;
  for (const Permission& permission : AllPermissions()) named.insert(std::string(permission.method));
  EXPECT_THAT(named, ContainerEq(expected));
  EXPECT_EQ(named.size(), AllPermissions().size());
}

TEST_F(PermissionsTest, LimitsUsersToTheirNamespacesWhereverARequestNamesOne) {
  for (const MethodDescriptor* method : methods_) {
    const Permission* permission = FindPermission(PathOf(*method));
    ASSERT_NE(permission, nullptr);
    if (!IsAllowed(*permission, Role::kUser)) continue;
    EXPECT_EQ(permission->in_namespace, NamesANamespace(*method->input_type())) << PathOf(*method);
  }
}

TEST_F(PermissionsTest, NotesWhateverTakesARequestId) {
  for (const MethodDescriptor* method : methods_) {
    if (method->input_type()->FindFieldByName("request_id") == nullptr) continue;
    EXPECT_TRUE(FindPermission(PathOf(*method))->audited) << PathOf(*method);
  }
}

TEST_F(PermissionsTest, LetsNobodyCallWhatHasNoRoles) {
  for (const Permission& permission : AllPermissions()) {
    EXPECT_EQ(permission.roles == 0, permission.access != Access::kRoles) << permission.method;
    // An admin may do whatever people may do.
    if (IsAllowed(permission, Role::kUser) || IsAllowed(permission, Role::kOperator)) {
      EXPECT_TRUE(IsAllowed(permission, Role::kAdmin)) << permission.method;
    }
  }
}

TEST(PermissionTest, KnowsMethodsByTheirWholeNamesOnly) {
  EXPECT_NE(FindPermission("/adaptdl.v1.JobService/GetJob"), nullptr);
  for (const char* method :
       {"", "/", "adaptdl.v1.JobService/GetJob", "/adaptdl.v1.JobService/GetJob/",
        "/adaptdl.v1.JobService/getjob", "/adaptdl.v1.JobService/", "/JobService/GetJob"}) {
    EXPECT_EQ(FindPermission(method), nullptr) << method;
  }
}

TEST(PermissionTest, TellsPeopleWhichRoleTheyNeed) {
  EXPECT_EQ(AllowedRoles(*FindPermission("/adaptdl.v1.QuotaService/SetQuota")), "admin");
  EXPECT_EQ(AllowedRoles(*FindPermission("/adaptdl.v1.JobService/GetJob")), "user, operator or admin");
}

}  // namespace
}  // namespace adaptdl::security
