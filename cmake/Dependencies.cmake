# Every third-party package; docs/dependencies.md says what each is for and under which licence.

find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CURL REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(NLopt CONFIG REQUIRED)
include(Torch)  # LibTorch: finding it differs between Debian's and upstream's builds

if(ADAPTDL_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
  include(GoogleTest)
endif()
if(ADAPTDL_BUILD_BENCH)
  find_package(benchmark CONFIG REQUIRED)
endif()
