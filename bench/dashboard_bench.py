#!/usr/bin/python3
"""How long the dashboard takes until it shows what it is opened for: the list of jobs, of a cluster with hundreds, in a headless Chromium
that has opened it before. Goals: 300 ms, 500 KiB.

    bench/dashboard_bench.py [--jobs 500] [--repeats 10] [PROGRAMS]       PROGRAMS: build/release/bin

Of real services on this machine; printed are the medians. The time is from the navigation until the frame that has every job; the bytes are
those of all answers until then, headers and jobs included, with nothing in the browser's cache.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/web"))

from browser import Browser, wait_until  # pylint: disable=wrong-import-position
from dashboard_test import Cluster  # pylint: disable=wrong-import-position

WATCH = """
new MutationObserver((_, observer) => {
  if (document.querySelectorAll("table.jobs tbody tr").length < %d) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.seenAfter = performance.now(); }));
}).observe(document, {childList: true, subtree: true});
"""


def received(browser):
    """Bytes, since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.driver.get_log("performance")]
    headers = sum(len(message["params"]["response"].get("headersText", "")) for message in messages
                  if message["method"] == "Network.responseReceived")
    return headers + sum(message["params"]["encodedDataLength"] or message["params"]["dataLength"] for message in messages
                         if message["method"] == "Network.dataReceived")


def view(browser, url, cached):
    browser.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": not cached})
    browser.open("about:blank")
    received(browser)
    browser.open(url)
    seconds = wait_until(lambda: f"all jobs are seen: {browser.text()[:300]}; {browser.complaints()}", lambda: browser.driver.execute_script("return window.seenAfter")) / 1000
    print(f"dashboard_bench: {round(1000 * seconds)} ms", file=sys.stderr)
    return seconds, received(browser)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("programs", nargs="?", type=pathlib.Path, default=ROOT / "build/release/bin")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Cluster(options.programs.resolve(), pathlib.Path(name) / "home") as cluster:
        print(f"dashboard_bench: submitting {options.jobs} jobs", file=sys.stderr)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: cluster.run("submit", "--name", f"many-{i}", "--min-replicas", 3, "--max-replicas", 3, "--", "true"),
                          range(options.jobs)))
        with Browser() as browser:
            url = cluster.open_dashboard()
            browser.open(url)
            browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH % options.jobs})
            own = url.partition("?")[0]
            cold = [view(browser, own, cached=False) for _ in range(options.repeats)]
            warm = [view(browser, own, cached=True) for _ in range(options.repeats)]
    print(json.dumps({
        "jobs": options.jobs,
        "warm_ms": round(1000 * statistics.median(seconds for seconds, _ in warm)),
        "warm_worst_ms": round(1000 * max(seconds for seconds, _ in warm)),
        "cold_ms": round(1000 * statistics.median(seconds for seconds, _ in cold)),
        "cold_kib": round(statistics.median(size for _, size in cold) / 1024),
        "warm_kib": round(statistics.median(size for _, size in warm) / 1024),
    }, indent=2))


if __name__ == "__main__":
    main()
