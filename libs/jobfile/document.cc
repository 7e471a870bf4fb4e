#include "libs/jobfile/document.h"

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/parser.h"

namespace adaptdl::jobfile {
namespace {

// Thrown through yaml-cpp, which knows no other way to stop a parse; caught in ParseDocument.
struct Refusal {
  int line;
  std::string text;
};

int LineOf(const YAML::Mark& mark) { return mark.line + 1; }

int CountNodes(const Node& node) {
  int count = 1;
  for (const Node& item : node.items) count += CountNodes(item);
  for (const Field& field : node.fields) count += 1 + CountNodes(field.value);
  return count;
}

int DepthOf(const Node& node) {
  int depth = 0;
  for (const Node& item : node.items) depth = std::max(depth, DepthOf(item));
  for (const Field& field : node.fields) depth = std::max(depth, DepthOf(field.value));
  return depth + 1;
}

// Builds the tree from the parser's events. Open lists and maps lie on a stack.
class TreeBuilder final : public YAML::EventHandler {
 public:
  Node& root() { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(MakeNode(Node::Kind::kNull, mark), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = MakeNode(Node::Kind::kScalar, mark);
    node.text = value;
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    Add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) throw Refusal{LineOf(mark), "an alias that contains itself"};
    nodes_ += CountNodes(target->second);
    CheckBounds(LineOf(mark), DepthOf(target->second));
    Node copy = target->second;
    copy.line = LineOf(mark);
    Add(std::move(copy), 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Node::Kind::kList, mark, anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Node::Kind::kMap, mark, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    Node node;
    YAML::anchor_t anchor = 0;
    // Maps: a key was read and its value comes next.
    bool has_key = false;
  };

  Node MakeNode(Node::Kind kind, const YAML::Mark& mark) {
    ++nodes_;
    Node node;
    node.kind = kind;
    node.line = LineOf(mark);
    CheckBounds(node.line, 1);
    return node;
  }

  void CheckBounds(int line, int depth) const {
    if (nodes_ > kMaxNodes) throw Refusal{line, absl::StrCat("more than ", kMaxNodes, " values")};
    if (static_cast<int>(open_.size()) + depth > kMaxDepth) {
      throw Refusal{line, absl::StrCat("nested more than ", kMaxDepth, " levels deep")};
    }
  }

  void Open(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    open_.push_back({MakeNode(kind, mark), anchor, false});
  }

  void Close() {
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    Add(std::move(closed.node), closed.anchor);
  }

  void Add(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      // The remembered copy counts too: nested anchors would otherwise hold much more than the file.
      nodes_ += CountNodes(node);
      CheckBounds(node.line, 1);
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.kind == Node::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.has_key) {
      parent.node.fields.back().value = std::move(node);
      parent.has_key = false;
    } else {
      if (node.kind != Node::Kind::kScalar) throw Refusal{node.line, "a field's name must be a text"};
      parent.node.fields.push_back({std::move(node.text), node.line, {}});
      parent.has_key = true;
    }
  }

  Node root_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  int nodes_ = 0;
};

// Length of the UTF-8 sequence at the start of `text`; 0 if there is none.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length == 0 || first > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond Unicode.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) return 0;
  return length;
}

void CheckText(absl::string_view content) {
  int line = 1;
  while (!content.empty()) {
    const size_t length = Utf8Length(content);
    if (length == 0) throw Refusal{line, "not UTF-8 text"};
    if (content[0] == '\0') throw Refusal{line, "a NUL character; this is no YAML text"};
    if (content[0] == '\n') ++line;
    content.remove_prefix(length);
  }
}

Node ParseOrThrow(absl::string_view content) {
  if (static_cast<int64_t>(content.size()) > kMaxFileBytes) {
    throw Refusal{1, absl::StrCat("the file is larger than ", kMaxFileBytes, " bytes")};
  }
  CheckText(content);
  std::istringstream stream{std::string(content)};
  YAML::Parser parser(stream);
  TreeBuilder first;
  if (!parser.HandleNextDocument(first)) throw Refusal{1, "the file is empty"};
  TreeBuilder second;
  if (parser.HandleNextDocument(second) && second.root().kind != Node::Kind::kNull) {
    throw Refusal{second.root().line, "a second document; a file holds one"};
  }
  return std::move(first.root());
}

}  // namespace

const Node* Node::Find(absl::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

absl::StatusOr<Node> ParseDocument(absl::string_view content, absl::string_view file_name) {
  const auto refuse = [&](int line, absl::string_view text) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, ":", line, ": ", text));
  };
  try {
    return ParseOrThrow(content);
  } catch (const Refusal& refusal) {
    return refuse(refusal.line, refusal.text);
  } catch (const YAML::Exception& error) {
    return refuse(error.mark.line + 1, absl::StrCat("not valid YAML: ", error.msg));
  }
}

}  // namespace adaptdl::jobfile
