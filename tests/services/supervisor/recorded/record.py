#!/usr/bin/env python3
"""Records what a program of AdaptDL's Python package asks of its supervisor, for adaptdl_http_test.cc.

    record.py FOLDER PROGRAM [ARGUMENT...]

Runs the program as the only replica of a job and plays its supervisor: the first rendezvous times out, the second one
succeeds. Writes each kind of request, as it came over the wire, and the answer it got into FOLDER/<kind>.json. The
secret in the program's URL is "SECRET", its job "default/recorded".
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, value = line.split(b":", 1)
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += connection.recv(65536)
    return head.decode() + "\r\n\r\n" + body.decode()


def serve(listener, folder):
    discoveries = 0
    while True:
        connection, _ = listener.accept()
        request = read_request(connection)
        if request is None:
            continue
        if request.startswith("GET") and "/discover/" in request:
            discoveries += 1
            kind, status, body = ("discover-timeout", 408, None) if discoveries == 1 else ("discover", 200, ["127.0.0.1"])
        elif request.startswith("PUT") and "/hints/" in request:
            kind, status, body = "hints", 200, ""
        else:
            kind, status, body = "other", 404, ""
        with open(os.path.join(folder, kind + ".json"), "w", encoding="utf-8") as file:
            json.dump({"request": request, "status": status, "answer": body}, file, indent=2)
            file.write("\n")
        text = json.dumps(body) if body != "" else ""
        connection.sendall(f"HTTP/1.1 {status} Recorded\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode())
        connection.close()


def main():
    folder, command = sys.argv[1], sys.argv[2:]
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    threading.Thread(target=serve, args=(listener, folder), daemon=True).start()
    free = socket.create_server(("127.0.0.1", 0))
    master_port = free.getsockname()[1]
    free.close()
    with tempfile.TemporaryDirectory() as files:
        subprocess.run(command, check=True, env=dict(
            os.environ, ADAPTDL_SUPERVISOR_URL=f"http://127.0.0.1:{port}/SECRET/0", ADAPTDL_JOB_ID="default/recorded",
            ADAPTDL_MASTER_PORT=str(master_port), ADAPTDL_NUM_REPLICAS="1", ADAPTDL_NUM_NODES="1",
            ADAPTDL_NUM_RESTARTS="0", ADAPTDL_REPLICA_RANK="0", ADAPTDL_SCHED_VERSION="0.2.11",
            ADAPTDL_CHECKPOINT_PATH=files))


if __name__ == "__main__":
    main()
