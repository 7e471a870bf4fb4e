"""The metadata service of one machine (IMDSv2): what is asked for without a token is refused."""

import http.server
import json
import threading

from emulator import Server


class Metadata:
    def __init__(self, instance, address):
        role = {"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "test", "SecretAccessKey": "test", "Token": "test",
                "LastUpdated": "2020-01-01T00:00:00Z", "Expiration": "2100-01-01T00:00:00Z"}
        self.values = {"instance-id": instance, "local-ipv4": address, "iam/security-credentials/": "role",
                       "iam/security-credentials/role": json.dumps(role)}
        self.tokens = set()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                if self.path != "/latest/api/token" or "X-aws-ec2-metadata-token-ttl-seconds" not in self.headers:
                    return self.answer(400, "")
                token = f"token-{len(service.tokens)}"
                service.tokens.add(token)
                self.answer(200, token)

            def do_GET(self):
                if self.headers.get("X-aws-ec2-metadata-token") not in service.tokens:
                    return self.answer(401, "")
                value = service.values.get(self.path.removeprefix("/latest/meta-data/"))
                self.answer(404, "") if value is None else self.answer(200, value)

            def answer(self, status, text):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *arguments):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def give_notice(self, time):
        """Of the machine's end, as spot machines get it; `time` as Amazon writes it."""
        self.values["spot/instance-action"] = json.dumps({"action": "terminate", "time": time})

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
