"""Moto's server as Amazon, and a proxy before it that has bad days: it has no capacity, asks for fewer calls, finds credentials
expired, loses answers. And it keeps the promise of CreateFleet's ClientToken, which moto does not."""

import collections
import http.server
import threading
import urllib.parse
import urllib.request
import xml.etree.ElementTree

from moto.server import ThreadedMotoServer


def error(code):
    return (f"<Response><Errors><Error><Code>{code}</Code><Message>says the test</Message></Error></Errors></Response>").encode()


NO_CAPACITY = (b"<CreateFleetResponse><fleetId>fleet-none</fleetId><errorSet><item><errorCode>InsufficientInstanceCapacity</errorCode>"
               b"<errorMessage>none is left</errorMessage></item></errorSet><fleetInstanceSet/></CreateFleetResponse>")


class Emulator:
    def __init__(self):
        self.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.moto.start()
        host, port = self.moto.get_host_and_port()
        self.upstream = f"http://{host}:{port}"
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

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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
            try:
                with urllib.request.urlopen(call) as answer:
                    status, content = answer.status, answer.read()
            except urllib.error.HTTPError as failure:
                return failure.code, failure.read()
            if form.get("Action") == "CreateFleet":
                self.answers[token] = content
                self.tag(form, content)
            return status, content

    def tag(self, form, content):
        """Moto gives machines of a fleet none of the tags that the call asks for."""
        tags = [(form[f"TagSpecification.2.Tag.{k}.Key"], form[f"TagSpecification.2.Tag.{k}.Value"])
                for k in range(1, 50) if f"TagSpecification.2.Tag.{k}.Key" in form]
        ids = [element.text for element in xml.etree.ElementTree.fromstring(content).iter() if element.tag.endswith("item") and
               (element.text or "").startswith("i-")]
        if ids:
            self.ec2().create_tags(Resources=ids, Tags=[{"Key": key, "Value": value} for key, value in tags])

    def ec2(self):
        import boto3

        return boto3.client("ec2", region_name="us-east-1", endpoint_url=self.upstream, aws_access_key_id="test",
                            aws_secret_access_key="test")

    def machines(self, *states):
        """Ids of the machines in these states."""
        found = []
        for page in self.ec2().get_paginator("describe_instances").paginate():
            for reservation in page["Reservations"]:
                found += [machine["InstanceId"] for machine in reservation["Instances"]
                          if machine["State"]["Name"] in states]
        return sorted(found)

    def living(self):
        return self.machines("pending", "running")

    def stop(self):
        self.server.shutdown()
        self.moto.stop()
