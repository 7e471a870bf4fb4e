# The image for nodes with NVIDIA's GPUs: the same programs, built against a CUDA LibTorch, and libadaptdl_cuda.so. Not
# built yet; the training library, its tests and the examples are known to build with these versions of LibTorch and CUDA.
#
#   docker build -f deploy/docker/Dockerfile --target runtime -t adaptdl-runtime .
#   docker build -f deploy/docker/cuda.Dockerfile -t adaptdl:cuda .
#
# Both bases are Debian 12, as scripts/setup.sh knows nothing else: NVIDIA's own images, on Ubuntu or Rocky Linux, do
# not do. CUDA comes from NVIDIA's repository for Debian 12, and LibTorch from the "torch" wheel, whose dependencies are
# CUDA's libraries, cuDNN and NCCL; the driver's libraries are the host's. No GPU is needed to build. Most of the image is
# CUDA's libraries: by estimate 5 GB, and three times that while it is built.

ARG BASE_IMAGE=debian:bookworm-slim
ARG RUNTIME_IMAGE=adaptdl-runtime:latest

FROM ${BASE_IMAGE} AS build
WORKDIR /src
COPY scripts/setup.sh scripts/packages.txt scripts/
RUN scripts/setup.sh --group build
# An address, or a file of the context: the package that makes NVIDIA's repository known.
ARG CUDA_KEYRING=https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb
ARG CUDA_VERSION=13-0
ADD ${CUDA_KEYRING} /tmp/cuda-keyring.deb
RUN dpkg -i /tmp/cuda-keyring.deb \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-pip \
      cuda-nvcc-${CUDA_VERSION} cuda-libraries-dev-${CUDA_VERSION} cuda-nvtx-${CUDA_VERSION} \
      cuda-profiler-api-${CUDA_VERSION}
ENV PATH=/usr/local/cuda/bin:$PATH
# Of the same major version of CUDA. Where the registry is out of reach, PIP_INDEX_URL names another one.
ARG TORCH_VERSION=2.11.0
ARG PIP_INDEX_URL
RUN python3 -m pip install --no-cache-dir --target /opt/torch "torch==${TORCH_VERSION}"
COPY . .
# The last line: it was this LibTorch that was found, not Debian's.
RUN cmake --preset release -DADAPTDL_BUILD_TESTS=OFF -DADAPTDL_BUILD_BENCH=OFF \
      -DADAPTDL_CUDA=ON -DCMAKE_PREFIX_PATH=/opt/torch/torch \
 && cmake --build --preset release \
 && cmake --install build/release --prefix /opt/adaptdl --component programs --strip \
 && cmake --install build/release --prefix /opt/adaptdl --component python --strip \
 && readelf -d /opt/adaptdl/bin/adaptdl-mnist | grep libtorch_cuda

FROM ${RUNTIME_IMAGE}
# Side by side, as LibTorch looks for CUDA's libraries in ../../nvidia.
COPY --from=build /opt/torch/torch/lib /opt/torch/torch/lib
COPY --from=build /opt/torch/nvidia /opt/torch/nvidia
COPY --from=build /opt/adaptdl /opt/adaptdl
# Every program finds them, those of your jobs too. The driver's library is there only when a container runs.
USER root
RUN find /opt/torch -type d -name lib >/etc/ld.so.conf.d/torch.conf \
 && ldconfig \
 && ldd /opt/adaptdl/bin/adaptdl-mnist | awk '/not found/ && !/libcuda\.so/ { print; missing = 1 } END { exit missing }'
USER 10001:10001
# A container sees the GPUs that it is given, and none else: with "all", as NVIDIA's images have it, one that asks for none
# would see all where NVIDIA's runtime is the default one. "utility" is NVML, by which the worker knows its GPUs.
ENV NVIDIA_VISIBLE_DEVICES=void \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
