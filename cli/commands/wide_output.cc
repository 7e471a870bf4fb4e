#include "cli/commands/wide_output.h"

#include <map>
#include <memory>
#include <string>

#include "CLI/Validators.hpp"
#include "absl/strings/str_cat.h"

namespace adaptdl::cli {

std::shared_ptr<const bool> AddWideOutput(CLI::App* command, Context* context, const std::string& more) {
  const std::map<std::string, Format> formats = {
      {"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}, {"wide", Format::kTable}};
  const auto wide = std::make_shared<bool>(false);
  command
      ->add_option_function<std::string>(
          "-o,--output",
          [context, wide, formats](const std::string& name) {
            context->format = formats.at(name);
            *wide = name == "wide";
          },
          absl::StrCat("Output: table, wide (with ", more, "), json or yaml"))
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
  return wide;
}

}  // namespace adaptdl::cli
