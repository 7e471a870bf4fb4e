// Proves that the comparison of contracts finds what it must.

#include "tests/proto/contract.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace adaptdl::proto {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFile[] = R"(
  name: "p/v1/a.proto" package: "p.v1" syntax: "proto3"
  message_type {
    name: "M"
    field { name: "id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "tags" number: 2 type: TYPE_STRING label: LABEL_REPEATED }
    field { name: "max" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL proto3_optional: true oneof_index: 1 }
    field { name: "a" number: 4 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 0 }
    field { name: "kind" number: 5 type: TYPE_ENUM type_name: ".p.v1.Kind" label: LABEL_OPTIONAL }
    field { name: "labels" number: 6 type: TYPE_MESSAGE type_name: ".p.v1.M.LabelsEntry" label: LABEL_REPEATED }
    oneof_decl { name: "choice" }
    oneof_decl { name: "_max" }
    nested_type {
      name: "LabelsEntry"
      field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "value" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
      options { map_entry: true }
    }
  }
  enum_type {
    name: "Kind"
    value { name: "KIND_UNSPECIFIED" number: 0 }
    value { name: "KIND_ONE" number: 1 }
  }
  service {
    name: "S"
    method { name: "Watch" input_type: ".p.v1.M" output_type: ".p.v1.M" server_streaming: true }
    method { name: "Get" input_type: ".p.v1.M" output_type: ".p.v1.M" }
  }
)";

class ContractTest : public ::testing::Test {
 protected:
  ContractTest() { EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kFile, &file_)); }

  static std::vector<std::string> Describe(const google::protobuf::FileDescriptorProto& file) {
    google::protobuf::DescriptorPool pool;
    const google::protobuf::FileDescriptor* built = pool.BuildFile(file);
    EXPECT_NE(built, nullptr);
    return built == nullptr ? std::vector<std::string>() : DescribeFile(*built);
  }

  // What comparing the file as it was with `file_` says.
  ContractDifference Difference() {
    google::protobuf::FileDescriptorProto original;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kFile, &original));
    return Compare(Describe(original), Describe(file_));
  }

  void ExpectBreak(const std::string& element, const std::string& what) {
    const ContractDifference difference = Difference();
    ASSERT_EQ(difference.breaks.size(), 1u) << ::testing::PrintToString(difference.breaks);
    EXPECT_THAT(difference.breaks[0], AllOf(HasSubstr(element), HasSubstr(what)));
  }

  google::protobuf::DescriptorProto& message() { return *file_.mutable_message_type(0); }
  google::protobuf::FieldDescriptorProto& field(int index) { return *message().mutable_field(index); }
  google::protobuf::MethodDescriptorProto& method(int index) {
    return *file_.mutable_service(0)->mutable_method(index);
  }

  google::protobuf::FileDescriptorProto file_;
};

TEST_F(ContractTest, ReadsLikeTheSource) {
  EXPECT_THAT(
      Describe(file_),
      ElementsAre("service p.v1.S : file p/v1/a.proto", "method p.v1.S.Watch : p.v1.M -> stream p.v1.M",
                  "method p.v1.S.Get : p.v1.M -> p.v1.M", "message p.v1.M : file p/v1/a.proto",
                  "field p.v1.M.id : 1 string", "field p.v1.M.tags : 2 repeated string",
                  "field p.v1.M.max : 3 optional int32", "field p.v1.M.a : 4 int32 in oneof choice",
                  "field p.v1.M.kind : 5 p.v1.Kind", "field p.v1.M.labels : 6 map<string, int64>",
                  "enum p.v1.Kind : file p/v1/a.proto", "value p.v1.Kind.KIND_UNSPECIFIED : 0",
                  "value p.v1.Kind.KIND_ONE : 1"));
}

TEST_F(ContractTest, NothingChangedIsNoDifference) {
  EXPECT_THAT(Difference().breaks, IsEmpty());
  EXPECT_THAT(Difference().additions, IsEmpty());
}

TEST_F(ContractTest, ANewNumberIsABreak) {
  field(0).set_number(9);
  ExpectBreak("field p.v1.M.id", "was \"1 string\" and is now \"9 string\"");
}

TEST_F(ContractTest, ANewTypeIsABreak) {
  field(0).set_type(google::protobuf::FieldDescriptorProto::TYPE_BYTES);
  ExpectBreak("field p.v1.M.id", "bytes");
}

TEST_F(ContractTest, ANewLabelIsABreak) {
  field(0).set_label(google::protobuf::FieldDescriptorProto::LABEL_REPEATED);
  ExpectBreak("field p.v1.M.id", "repeated");
}

TEST_F(ContractTest, LosingPresenceIsABreak) {
  field(2).clear_proto3_optional();
  field(2).clear_oneof_index();
  message().mutable_oneof_decl()->RemoveLast();
  ExpectBreak("field p.v1.M.max", "optional");
}

TEST_F(ContractTest, MovingIntoAOneofIsABreak) {
  field(4).set_oneof_index(0);
  ExpectBreak("field p.v1.M.kind", "in oneof choice");
}

TEST_F(ContractTest, ANewTypeOfMapValuesIsABreak) {
  message().mutable_nested_type(0)->mutable_field(1)->set_type(
      google::protobuf::FieldDescriptorProto::TYPE_STRING);
  ExpectBreak("field p.v1.M.labels", "map<string, string>");
}

TEST_F(ContractTest, ARemovedFieldIsABreak) {
  message().mutable_field()->DeleteSubrange(1, 1);
  ExpectBreak("field p.v1.M.tags", "is gone");
}

TEST_F(ContractTest, ARenamedFieldIsABreak) {
  field(0).set_name("name");
  ExpectBreak("field p.v1.M.id", "is gone");
  EXPECT_THAT(Difference().additions, ElementsAre("field p.v1.M.name : 1 string"));
}

TEST_F(ContractTest, ANewNumberOfAnEnumValueIsABreak) {
  file_.mutable_enum_type(0)->mutable_value(1)->set_number(2);
  ExpectBreak("value p.v1.Kind.KIND_ONE", "\"2\"");
}

TEST_F(ContractTest, ARemovedEnumValueIsABreak) {
  file_.mutable_enum_type(0)->mutable_value()->RemoveLast();
  ExpectBreak("value p.v1.Kind.KIND_ONE", "is gone");
}

TEST_F(ContractTest, LosingAStreamIsABreak) {
  method(0).clear_server_streaming();
  ExpectBreak("method p.v1.S.Watch", "p.v1.M -> p.v1.M");
}

TEST_F(ContractTest, BecomingAStreamIsABreak) {
  method(1).set_client_streaming(true);
  ExpectBreak("method p.v1.S.Get", "stream p.v1.M -> p.v1.M");
}

TEST_F(ContractTest, ARemovedMethodIsABreak) {
  file_.mutable_service(0)->mutable_method()->RemoveLast();
  ExpectBreak("method p.v1.S.Get", "is gone");
}

TEST_F(ContractTest, MovingToAnotherFileIsABreak) {
  file_.set_name("p/v1/b.proto");
  EXPECT_EQ(Difference().breaks.size(), 3u);  // the message, the enum and the service
}

TEST_F(ContractTest, AnAdditionIsNoBreakButIsNoticed) {
  google::protobuf::FieldDescriptorProto& added = *message().add_field();
  added.set_name("new");
  added.set_number(7);
  added.set_type(google::protobuf::FieldDescriptorProto::TYPE_DOUBLE);
  added.set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
  EXPECT_THAT(Difference().breaks, IsEmpty());
  EXPECT_THAT(Difference().additions, ElementsAre("field p.v1.M.new : 7 double"));
}

}  // namespace
}  // namespace adaptdl::proto
