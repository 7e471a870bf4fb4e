"""What a job tells the scheduler of itself, as AdaptDL's package does it: by the supervisor's HTTP side.

    hints = dict(SCHED_HINTS, initBatchSize=128, maxBatchSize=1280, localBszBounds=[64, 256])
    post_sched_hints(hints, os.environ["ADAPTDL_JOB_ID"])

Programs that train with `adaptdl.torch` need none of this: the engine reports by itself, over gRPC. This is
for programs that call it themselves, on a cluster whose supervisor serves AdaptDL's interface
(`--adaptdl-http`).
"""

import http.client
import json
import logging
import os
import urllib.error
import urllib.request
from types import MappingProxyType
from typing import Any, Mapping

from adaptdl.goodput import PerfParams

__all__ = ["PERF_PARAMS", "SCHED_HINTS", "post_sched_hints"]

LOG = logging.getLogger(__name__)

# The model's parameters by name, as `perfParams` has them.
PERF_PARAMS: Mapping[str, float] = MappingProxyType({name: 0.0 for name in PerfParams._fields})

# All that may be told, with what stands for "nothing". Sizes are in samples.
SCHED_HINTS: Mapping[str, Any] = MappingProxyType(
    {
        "initBatchSize": 0,
        "localBszBounds": None,  # [least, most], of one replica in one micro-step
        "globalBatchSize": None,  # not read by anybody
        "maxBatchSize": 0,
        "maxProfiledReplicas": 0,
        "gradientAccumulation": False,
        "gradParams": None,  # {"norm": squared norm, "var": variance}, at initBatchSize
        "perfParams": None,  # as PERF_PARAMS
    }
)

_TIMEOUT_SECONDS = 10.0


def post_sched_hints(sched_hints: Mapping[str, Any], job_key: str) -> None:
    """Puts the hints of the job "namespace/name" to the supervisor; does nothing outside of a cluster.

    Training does not depend on it: what fails is a warning in the log, hints that are none of SCHED_HINTS and
    numbers that are not finite included. Takes ten seconds at most.
    """
    url = os.environ.get("ADAPTDL_SUPERVISOR_URL")
    if not url:
        return
    unknown = sorted(set(sched_hints) - set(SCHED_HINTS))
    if unknown:
        LOG.warning("hints were not sent: %s is none of %s", ", ".join(unknown), ", ".join(SCHED_HINTS))
        return
    try:
        body = json.dumps(dict(sched_hints), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        LOG.warning("hints were not sent: %s", error)
        return
    # Its address is one of the cluster's own network, whatever proxies there are to the world.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(f"{url}/hints/{job_key}", data=body, method="PUT", headers=headers)
        with opener.open(request, timeout=_TIMEOUT_SECONDS):
            pass
    except urllib.error.HTTPError as error:
        LOG.warning(
            "the supervisor refused the hints: %d %s", error.code, error.read(500).decode("utf-8", "replace")
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Not the address: it holds a secret.
        LOG.warning("hints were not sent: %s", type(error).__name__)
