// What must hold of the public protocol (proto/adaptdl/v1): it stays compatible with what was recorded in
// contract.txt, and keeps the project's rules.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/compiler/importer.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/proto/contract.h"

namespace adaptdl::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::SourceLocation;
using ::testing::IsEmpty;

constexpr char kProtoFolder[] = ADAPTDL_SOURCE_DIR "/proto";
constexpr char kContract[] = ADAPTDL_SOURCE_DIR "/tests/proto/contract.txt";
constexpr char kNames[] = ADAPTDL_SOURCE_DIR "/proto/names.md";
constexpr char kHeader[] =
    "# The public protocol as it was promised: one line per element. Lines are never changed or removed by "
    "hand;\n"
    "# scripts/update-contract.sh adds those of new elements.\n";

class ErrorPrinter final : public google::protobuf::compiler::MultiFileErrorCollector {
 public:
  void AddError(const std::string& file, int line, int, const std::string& message) override {
    ADD_FAILURE() << file << ":" << line + 1 << ": " << message;
  }
};

class ProtocolTest : public ::testing::Test {
 protected:
  ProtocolTest() : importer_(&tree_, &errors_) {
    tree_.MapPath("", kProtoFolder);
    tree_.MapPath("", ADAPTDL_PROTOBUF_INCLUDE);
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kProtoFolder)) {
      if (entry.path().extension() == ".proto") {
        names.insert(entry.path().lexically_relative(kProtoFolder).string());
      }
    }
    for (const std::string& name : names) {
      const FileDescriptor* file = importer_.Import(name);
      if (file != nullptr) files_.push_back(file);
    }
    EXPECT_EQ(files_.size(), names.size());
    EXPECT_GE(files_.size(), 10u);
  }

  std::vector<std::string> Contract() const {
    std::vector<std::string> lines;
    for (const FileDescriptor* file : files_) {
      for (std::string& line : DescribeFile(*file)) lines.push_back(std::move(line));
    }
    return lines;
  }

  void ForEachMessage(const std::function<void(const Descriptor&)>& visit) const {
    for (const FileDescriptor* file : files_) {
      for (int i = 0; i < file->message_type_count(); ++i) visit(*file->message_type(i));
    }
  }
  void ForEachEnum(const std::function<void(const EnumDescriptor&)>& visit) const {
    for (const FileDescriptor* file : files_) {
      for (int i = 0; i < file->enum_type_count(); ++i) visit(*file->enum_type(i));
    }
  }
  void ForEachMethod(const std::function<void(const MethodDescriptor&)>& visit) const {
    for (const FileDescriptor* file : files_) {
      for (int i = 0; i < file->service_count(); ++i) {
        for (int j = 0; j < file->service(i)->method_count(); ++j) visit(*file->service(i)->method(j));
      }
    }
  }

  google::protobuf::compiler::DiskSourceTree tree_;
  ErrorPrinter errors_;
  google::protobuf::compiler::Importer importer_;
  std::vector<const FileDescriptor*> files_;
};

std::vector<std::string> RecordedLines() {
  std::vector<std::string> lines;
  const absl::StatusOr<std::string> content = ReadWholeFile(kContract);
  if (!content.ok()) return lines;
  for (absl::string_view line : absl::StrSplit(*content, '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "#")) lines.emplace_back(line);
  }
  return lines;
}

template <typename Element>
bool HasComment(const Element& element) {
  SourceLocation location;
  return element.GetSourceLocation(&location) &&
         (!location.leading_comments.empty() || !location.trailing_comments.empty());
}

// Names in proto/names.md: the first column of its table, in backquotes.
std::set<std::string> CommonNames() {
  std::set<std::string> names;
  const std::string content = ReadWholeFile(kNames).value();
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, '`');
    if (absl::StartsWith(line, "| `") && parts.size() >= 3) names.insert(parts[1]);
  }
  return names;
}

// A comment on "min_x" or "alpha_x" speaks of "max_x" or "beta_x" in the next line as well.
bool SecondOfAPair(const FieldDescriptor& field) {
  if (field.index() == 0) return false;
  const FieldDescriptor& above = *field.containing_type()->field(field.index() - 1);
  const auto pair = [&](absl::string_view first, absl::string_view second) {
    return absl::StartsWith(above.name(), first) && absl::StartsWith(field.name(), second) &&
           above.name().substr(first.size()) == field.name().substr(second.size());
  };
  return HasComment(above) && (pair("min_", "max_") || pair("alpha_", "beta_"));
}

bool IsDocumented(const FieldDescriptor& field, const std::set<std::string>& common_names) {
  if (HasComment(field) || SecondOfAPair(field)) return true;
  // A message or an enum that says what it is says it of its fields, too.
  if (field.message_type() != nullptr && !field.is_map() &&
      field.message_type()->file()->package() == "adaptdl.v1") {
    return HasComment(*field.message_type());
  }
  if (field.enum_type() != nullptr) return HasComment(*field.enum_type());
  return common_names.contains(field.name());
}

TEST_F(ProtocolTest, StaysCompatibleWithWhatWasPromised) {
  const ContractDifference difference = Compare(RecordedLines(), Contract());
  EXPECT_THAT(difference.breaks, IsEmpty())
      << "Clients in the field would break. The contract is in tests/proto/contract.txt.";
  if (std::getenv("ADAPTDL_UPDATE_CONTRACT") != nullptr && difference.breaks.empty()) {
    ASSERT_TRUE(
        WriteFileAtomically(kContract, absl::StrCat(kHeader, absl::StrJoin(Contract(), "\n"), "\n")).ok());
    return;
  }
  EXPECT_THAT(difference.additions, IsEmpty())
      << "New elements are fine, but must be recorded: run "
         "scripts/update-contract.sh and commit tests/proto/contract.txt.";
}

TEST_F(ProtocolTest, EnumsBeginAtUnspecified) {
  ForEachEnum([](const EnumDescriptor& type) {
    // "JobPhase" -> "JOB_PHASE_"
    std::string prefix;
    for (const char c : type.name()) {
      if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
      prefix += absl::ascii_toupper(c);
    }
    prefix += '_';
    EXPECT_EQ(type.value(0)->name(), prefix + "UNSPECIFIED");
    EXPECT_EQ(type.value(0)->number(), 0) << type.full_name();
    for (int i = 0; i < type.value_count(); ++i) {
      EXPECT_TRUE(absl::StartsWith(type.value(i)->name(), prefix)) << type.value(i)->full_name();
    }
  });
}

TEST_F(ProtocolTest, ChangesCarryARequestId) {
  int changes = 0;
  ForEachMethod([&](const MethodDescriptor& method) {
    constexpr const char* kVerbs[] = {"Submit", "Cancel", "Delete",   "Drain",  "Remove",
                                      "Apply",  "Create", "Register", "Update", "Set"};
    const bool change = std::any_of(std::begin(kVerbs), std::end(kVerbs),
                                    [&](const char* verb) { return absl::StartsWith(method.name(), verb); });
    if (!change) return;
    ++changes;
    const FieldDescriptor* id = method.input_type()->FindFieldByName("request_id");
    ASSERT_NE(id, nullptr) << method.full_name() << " changes something: its request needs a request_id";
    EXPECT_EQ(id->type(), FieldDescriptor::TYPE_STRING) << id->full_name();
  });
  EXPECT_GE(changes, 7);
}

TEST_F(ProtocolTest, EachMethodHasItsOwnRequestAndResponse) {
  ForEachMethod([](const MethodDescriptor& method) {
    EXPECT_EQ(method.input_type()->name(), method.name() + "Request") << method.full_name();
    EXPECT_EQ(method.output_type()->name(), method.name() + "Response") << method.full_name();
  });
}

TEST_F(ProtocolTest, EachFieldIsDocumented) {
  const std::set<std::string> common_names = CommonNames();
  std::vector<std::string> silent;
  ForEachMessage([&](const Descriptor& message) {
    for (int i = 0; i < message.field_count(); ++i) {
      if (!IsDocumented(*message.field(i), common_names)) silent.push_back(message.field(i)->full_name());
    }
  });
  EXPECT_THAT(silent, IsEmpty())
      << "Say above each what it means, with unit and default. (No need to: a type of ours "
         "with a comment, max_x below min_x, and the names of proto/names.md.)";
}

TEST_F(ProtocolTest, EachServiceAndEachPlainMessageIsDocumented) {
  std::vector<std::string> silent;
  for (const FileDescriptor* file : files_) {
    for (int i = 0; i < file->service_count(); ++i) {
      if (!HasComment(*file->service(i))) silent.push_back(file->service(i)->full_name());
    }
  }
  // Requests and responses belong to their method, whose comment speaks for them.
  std::set<const Descriptor*> of_methods;
  ForEachMethod([&](const MethodDescriptor& method) {
    of_methods.insert({method.input_type(), method.output_type()});
  });
  ForEachMessage([&](const Descriptor& message) {
    if (!of_methods.contains(&message) && !HasComment(message)) silent.push_back(message.full_name());
  });
  ForEachEnum([&](const EnumDescriptor& type) {
    if (!HasComment(type)) silent.push_back(type.full_name());
  });
  EXPECT_THAT(silent, IsEmpty());
}

TEST_F(ProtocolTest, NamesAreWrittenAsTheyShouldBe) {
  const auto snake = [](const std::string& name) {
    return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  };
  ForEachMessage([&](const Descriptor& message) {
    for (int i = 0; i < message.field_count(); ++i) EXPECT_TRUE(snake(message.field(i)->name()));
  });
  for (const FileDescriptor* file : files_) {
    // Details of errors have the names that every gRPC client knows.
    const bool errors = absl::StartsWith(file->name(), "google/rpc/");
    EXPECT_EQ(file->package(), errors ? "google.rpc" : "adaptdl.v1") << file->name();
    for (int i = 0; i < file->service_count(); ++i) {
      EXPECT_TRUE(absl::EndsWith(file->service(i)->name(), "Service")) << file->service(i)->full_name();
    }
  }
}

}  // namespace
}  // namespace adaptdl::proto
