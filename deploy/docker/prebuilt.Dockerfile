# The image with programs that are built already, on the same Debian. The context is the folder that "cmake --install
# build/release --component NAME --prefix FOLDER" has filled, with the components "programs" and "python":
#
#   docker build -f deploy/docker/Dockerfile --target runtime -t adaptdl-runtime .
#   docker build -f deploy/docker/prebuilt.Dockerfile -t adaptdl FOLDER

ARG RUNTIME_IMAGE=adaptdl-runtime:latest
FROM ${RUNTIME_IMAGE}
COPY . /opt/adaptdl/
