"""A picture of a page of the dashboard, as a browser on a desk shows it.

    /usr/bin/python3 scripts/lib/dashboard_picture.py PAGE PICTURE.png      PAGE: after the "#/", such as job/default/a

Runs "adaptdl dashboard" for it. Needs Chromium with its driver (scripts/setup.sh installs both with what tests need).
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/web"))

from browser import DESK, Browser, wait_until  # pylint: disable=wrong-import-position


def main():
    page, picture = sys.argv[1:]
    dashboard = subprocess.Popen(["adaptdl", "dashboard"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = dashboard.stdout.readline().strip()
        with Browser() as browser:
            browser.size(DESK)
            browser.open(url)
            wait_until("the jobs", lambda: browser.counts("table.jobs tbody tr") > 0)
            browser.page(page)
            wait_until("the page", lambda: browser.counts("main svg.chart") > 0 and "Loading" not in browser.text("main"))
            # Logs and what else streams.
            wait_until("all of it", lambda: browser.asks("overlapping") == [])
            browser.driver.save_screenshot(picture)
    finally:
        dashboard.terminate()
        dashboard.wait()


if __name__ == "__main__":
    main()
