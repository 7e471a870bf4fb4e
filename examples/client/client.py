#!/usr/bin/python3
"""Submits a job, follows it, and fetches its result:  client.py [HOST:PORT]
ADAPTDL_CA_FILE and ADAPTDL_TOKEN_FILE say whom to trust and who it is; without them it talks in plaintext."""

import os
import pathlib
import sys
import uuid

# Where the build puts the generated modules; PYTHONPATH may name another place.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "build/release/examples/client/python"))

import grpc  # noqa: E402
from adaptdl.v1 import job_pb2, job_service_pb2, job_service_pb2_grpc  # noqa: E402


def connect(address):
    if "ADAPTDL_CA_FILE" not in os.environ:
        return grpc.insecure_channel(address)
    ca = pathlib.Path(os.environ["ADAPTDL_CA_FILE"]).read_bytes()
    token = pathlib.Path(os.environ["ADAPTDL_TOKEN_FILE"]).read_text().strip()
    credentials = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(ca), grpc.access_token_call_credentials(token))
    name = [("grpc.ssl_target_name_override", "supervisor.adaptdl")]  # certificates name services, not hosts
    return grpc.secure_channel(address, credentials, name)


def main(address):
    with connect(address) as channel:
        jobs = job_service_pb2_grpc.JobServiceStub(channel)

        submit = job_service_pb2.SubmitJobRequest(request_id=str(uuid.uuid4()), generate_name="client-py-")
        submit.job.spec.template.command.extend(
            ["sh", "-c", "echo working; echo 42 > $ADAPTDL_SHARE_PATH/result"])
        job = jobs.SubmitJob(submit, timeout=10).job

        phase = None
        for change in jobs.WatchJobs(job_service_pb2.WatchJobsRequest(name=job.name)):
            if change.HasField("job"):
                job = change.job
            if job.status.phase != phase:
                phase = job.status.phase
                print(f"{job.name}: {job_pb2.JobPhase.Name(phase)}", flush=True)
            if job.status.HasField("completion_time"):
                break
        if phase != job_pb2.JOB_PHASE_SUCCEEDED:
            return 1

        for part in jobs.ReadFiles(job_service_pb2.ReadFilesRequest(
                name=job.name, folder=job_service_pb2.JOB_FOLDER_SHARE, path="result"), timeout=60):
            sys.stdout.buffer.write(part.chunk.data)
        return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7100"))
    except grpc.RpcError as error:
        sys.exit(f"client: {error.details()} ({error.code().name})")
