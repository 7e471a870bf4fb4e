#!/usr/bin/env python3
"""Requests as Amazon's own signer signs them, as JSON lines: what signature_test.cc compares with.

    signature_cases.py SEED COUNT

The recorded ones, signature_cases.jsonl, are those of SEED 1 and COUNT 60. Needs botocore (requirements.txt).
"""

import datetime
import json
import random
import string
import sys
from urllib.parse import quote

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

TEXT = string.ascii_letters + string.digits + "-._~ /+=&:;,'\"!*()%äß☃"


def text(random_, most=12, least=1):
    return "".join(random_.choice(TEXT) for _ in range(random_.randint(least, most)))


def make_case(random_):
    s3 = random_.random() < 0.5
    unsigned = s3 and random_.random() < 0.4
    host = random_.choice(["ec2.eu-west-1.amazonaws.com", "127.0.0.1:9000", "bucket.s3.amazonaws.com", "h:443", "h:80"])
    path = "/" + "/".join(quote(text(random_), safe="~") for _ in range(random_.randint(0, 3)))
    if not s3 and random_.random() < 0.3:
        path += random_.choice(["/./a", "//b", "/../c", "/"])
    query = "&".join(f"{quote(text(random_), safe='~')}={quote(text(random_, least=0), safe='~')}"
                     for _ in range(random_.randint(0, 4)))
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    for k in range(random_.randint(0, 3)):
        headers[f"X-Amz-Meta-{k}"] = "  ".join(text(random_).replace(":", "").replace("☃", "").strip() or "x"
                                               for _ in range(2)).encode("ascii", "ignore").decode().strip() or "x"
    return {
        "access_key": "AKID" + "".join(random_.choice(string.ascii_uppercase) for _ in range(12)),
        "secret_key": "".join(random_.choice(string.ascii_letters + "/+") for _ in range(40)),
        "token": random_.choice(["", "token/" + "".join(random_.choice(string.ascii_letters) for _ in range(30))]),
        "region": random_.choice(["eu-west-1", "us-east-1", "cn-north-1"]),
        "service": "s3" if s3 else random_.choice(["ec2", "autoscaling", "sts"]),
        "unsigned": unsigned,
        "time": random_.randint(1_500_000_000, 2_000_000_000),
        "method": random_.choice(["GET", "PUT", "POST", "DELETE"]),
        "url": f"{random_.choice(['http', 'https'])}://{host}{path}" + (f"?{query}" if query else ""),
        "headers": headers,
        "body": random_.choice(["", "Action=DescribeInstances&Version=2016-11-15", text(random_, 200)]),
    }


def sign(case):
    moment = datetime.datetime.fromtimestamp(case["time"], datetime.timezone.utc)
    botocore.auth.get_current_datetime = lambda *_, **__: moment
    request = AWSRequest(method=case["method"], url=case["url"], headers=dict(case["headers"]),
                         data=case["body"].encode())
    request.context["client_config"] = Config(s3={"payload_signing_enabled": not case["unsigned"]})
    signer = botocore.auth.S3SigV4Auth if case["service"] == "s3" else botocore.auth.SigV4Auth
    credentials = Credentials(case["access_key"], case["secret_key"], case["token"] or None)
    signer(credentials, case["service"], case["region"]).add_auth(request)
    return request.headers["Authorization"]


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    random_ = random.Random(seed)
    for _ in range(count):
        case = make_case(random_)
        print(json.dumps({**case, "authorization": sign(case)}))


if __name__ == "__main__":
    main()
