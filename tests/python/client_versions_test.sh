#!/usr/bin/env bash
# adaptdl.client with other versions of protobuf and gRPC than Debian's, from the Python registry.
#
#   client_versions_test.sh BUILD_FOLDER      exit code 77: the registry is out of reach
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for versions in oldest newest; do
  python=$("$here/../venv.sh" "$1/client-$versions-venv" "$here/client-$versions.txt")
  "$python" -c 'import google.protobuf, grpc; print("protobuf", google.protobuf.__version__, "grpcio", grpc.__version__)'
  "$python" "$here/client_test.py" "$1"
done
