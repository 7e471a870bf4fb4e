"""Moto's server as Amazon, and a proxy before it that has bad days: it has no capacity, asks for fewer calls, finds credentials
expired, loses answers. And it makes good what moto does otherwise than EC2: CreateFleet honours its ClientToken, gives machines
their tags, and names all of them in its answer."""

import collections
import functools
import http.server
import logging
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import boto3
from moto.server import ThreadedMotoServer


def error(code):
    return (f"<Response><Errors><Error><Code>{code}</Code><Message>says the test</Message></Error></Errors></Response>").encode()


NO_CAPACITY = (b"<CreateFleetResponse><fleetId>fleet-none</fleetId><errorSet><item><errorCode>InsufficientInstanceCapacity</errorCode>"
               b"<errorMessage>none is left</errorMessage></item></errorSet><fleetInstanceSet/></CreateFleetResponse>")


logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each call


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # as of one who asked and was killed
            super().handle_error(request, client_address)


class Emulator:
    def __init__(self):
        self.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.moto.start()
        host, port = self.moto.get_host_and_port()
        self.upstream = f"http://{host}:{port}"
        # Its state outlives a server.
        urllib.request.urlopen(urllib.request.Request(self.upstream + "/moto-api/reset", method="POST")).close()
        self.lock = threading.Lock()
        # Faults of the next calls, by action: "throttle", "expired", "capacity", "lose".
        self.faults = collections.defaultdict(list)
        self.answers = {}  # of CreateFleet, by token
        self.actions = []
        emulator = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                emulator.serve(self)

            def log_message(self, *arguments):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def serve(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        form = dict(urllib.parse.parse_qsl(body.decode()))
        action = form.get("Action", "")
        with self.lock:
            self.actions.append(action)
            fault = self.faults[action].pop(0) if self.faults[action] else None
        if fault == "throttle":
            return self.answer(request, 503, error("RequestLimitExceeded"))
        if fault == "expired":
            return self.answer(request, 400, error("ExpiredToken"))
        if fault == "capacity":
            return self.answer(request, 200, NO_CAPACITY)
        status, content = self.forward(request, body, form)
        if fault == "lose":
            return request.connection.close()
        self.answer(request, status, content)

    @staticmethod
    def answer(request, status, content):
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def forward(self, request, body, form):
        with self.lock:
            token = form.get("ClientToken")
            if form.get("Action") == "CreateFleet" and token in self.answers:
                return 200, self.answers[token]
            headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
            headers["Host"] = "ec2.us-east-1.amazonaws.com"
            call = urllib.request.Request(self.upstream + "/", data=body, headers=headers)
            before = self.machines() if form.get("Action") == "CreateFleet" else []
            try:
                with urllib.request.urlopen(call) as answer:
                    status, content = answer.status, answer.read()
            except urllib.error.HTTPError as failure:
                return failure.code, failure.read()
            if form.get("Action") == "CreateFleet":
                content = self.answers[token] = self.fleet(form, content, before)
            return status, content

    def fleet(self, form, content, before):
        """The answer as EC2 gives it, and the machines as EC2 makes them. `before`: those that there were."""
        fleet = re.search(rb"<fleetId>([^<]*)</fleetId>", content).group(1).decode()
        ids = sorted(set(self.machines()) - set(before))
        tags = [{"Key": form[f"TagSpecification.2.Tag.{k}.Key"], "Value": form[f"TagSpecification.2.Tag.{k}.Value"]}
                for k in range(1, 50) if f"TagSpecification.2.Tag.{k}.Key" in form]
        self.ec2().create_tags(Resources=ids, Tags=tags)
        items = "".join(f"<item>{machine}</item>" for machine in ids)
        return (f"<CreateFleetResponse><fleetId>{fleet}</fleetId><errorSet/><fleetInstanceSet><item><instanceIds>{items}"
                "</instanceIds></item></fleetInstanceSet></CreateFleetResponse>").encode()

    @functools.cache
    def client(self, service):
        return boto3.client(service, region_name="us-east-1", endpoint_url=self.upstream, aws_access_key_id="test",
                            aws_secret_access_key="test")

    def ec2(self):
        return self.client("ec2")

    def machines(self, *states):
        """Ids of the machines in these states, of all if none is named."""
        found = []
        for page in self.ec2().get_paginator("describe_instances").paginate():
            for reservation in page["Reservations"]:
                found += [machine["InstanceId"] for machine in reservation["Instances"]
                          if not states or machine["State"]["Name"] in states]
        return sorted(found)

    def living(self):
        return self.machines("pending", "running")

    def stop(self):
        self.server.shutdown()
        self.moto.stop()
