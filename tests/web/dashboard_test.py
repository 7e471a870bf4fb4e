#!/usr/bin/env python3
"""The dashboard as a person uses it: "adaptdl dashboard" before a cluster of "adaptdl cluster up", in a headless Chromium.

    dashboard_test.py FOLDER_OF_THE_PROGRAMS

The pages are gone through in one story: first there are no jobs, then some that train, then hundreds, and at last no supervisor.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from browser import DESK, PHONE, Browser, wait_until

MANY = 500
PAGES = {"jobs": "Jobs", "timeline": "Timeline", "cluster": "Cluster", "pools": "Pools and cost"}


class Cluster:
    """By "adaptdl cluster up", and the dashboard of it."""

    def __init__(self, programs, home):
        self._home = home
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
        self._environment = ours | {"ADAPTDL_HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}",
                                    "ADAPTDL_SERVER_NODE_PRICE_PER_HOUR": "36", "OMP_NUM_THREADS": "1",
                                    "ADAPTDL_SERVER_WEB_LISTEN": "127.0.0.1:0", "ADAPTDL_SERVER_WEB_DASHBOARD": "true"}
        self._dashboard = None

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.close_dashboard()
        self.run("cluster", "down", "--force", "--purge")

    def up(self):
        self.run("cluster", "up", "--workers", 2, "--cpus-per-worker", 1, *([] if self._home.exists() else ["--port", 0]))

    def run(self, *arguments):
        done = subprocess.run(["adaptdl", *map(str, arguments)], env=self._environment, capture_output=True, text=True,
                              timeout=100, check=False)
        if done.returncode != 0:
            raise AssertionError(f"adaptdl {arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def job(self, name):
        return json.loads(self.run("describe", name, "-o", "json"))["job"]

    def open_dashboard(self):
        """Its URL, which admits one browser."""
        self._dashboard = subprocess.Popen(["adaptdl", "dashboard"], env=self._environment, stdout=subprocess.PIPE, text=True)
        return self._dashboard.stdout.readline().strip()

    def served_dashboard(self):
        """The URL at which the supervisor itself serves it, and a token for it."""
        address = (self._home / "run/supervisor.address.web").read_text(encoding="utf-8").strip()
        return f"https://{address}/", (self._home / "security/admin.token").read_text(encoding="utf-8").strip()

    def close_dashboard(self):
        if self._dashboard is not None:
            self._dashboard.terminate()
            assert self._dashboard.wait(30) == 0, "Ctrl-C is the way to end it"
            self._dashboard = None

    def kill_supervisor(self):
        os.kill(int((self._home / "run/supervisor.pid").read_text(encoding="utf-8").split()[0]), signal.SIGKILL)


def looks_well(browser, where):
    """What holds of every page, whatever it shows."""
    assert browser.asks("overflow") <= 0, f"{where}: wider than the window by {browser.asks('overflow')}"
    for question in ("faint", "nameless", "overlapping", "cut"):
        # Colours may still be changing.
        wait_until(lambda q=question: f"{where}, {q}: {browser.asks(q)}", lambda q=question: browser.asks(q) == [], patience=5)
    complaints = browser.complaints()
    assert not complaints, f"{where}: the console says {complaints}"


def goes_to(browser, page, heading):
    browser.page(page)
    wait_until(f"the heading of {page}", lambda: browser.text("h1") == heading)


def the_key_admits_once(browser, url):
    browser.open(url)
    browser.sees("admin", within="#who")
    assert "key=" not in browser.driver.current_url, "the key stays in the history"
    with Browser() as other:
        other.open(url)
        assert "Jobs" not in other.text("nav"), "another browser came in by the same key"
        assert "adaptdl dashboard" in other.text(), f"what to do is not said: {other.text()}"


def without_jobs(browser):
    goes_to(browser, "jobs", "Jobs")
    browser.sees("No jobs here yet", "adaptdl submit")
    looks_well(browser, "no jobs")
    browser.picture("no-jobs")
    goes_to(browser, "timeline", "Timeline")
    browser.sees("No job was there in this span")
    looks_well(browser, "no timeline")
    goes_to(browser, "cluster", "Cluster")
    browser.sees("local-0", "local-1", "Nothing runs here")
    looks_well(browser, "idle cluster")
    goes_to(browser, "pools", "Pools and cost")
    browser.sees("local", "process")
    looks_well(browser, "pools without use")
    goes_to(browser, "job/default/nobody", "nobody")
    browser.sees("There is no such job")
    # That it was not found is said on the console as well.
    browser.complaints()


def a_job_trains(browser, cluster):
    goes_to(browser, "jobs", "Jobs")
    cluster.run("submit", "--name", "digits", "--max-replicas", 2, "--", "adaptdl-mnist", "--epochs", 1000)
    browser.sees("digits", "Running", within="table.jobs")  # without a reload
    wait_until("its goodput", lambda: browser.text("table.jobs tbody td:nth-child(5)") not in ("", "–"))
    looks_well(browser, "jobs")
    browser.picture("jobs")

    browser.click("table.jobs a", "digits")
    wait_until("its page", lambda: browser.text("h1") == "digits")
    browser.sees("Running", "goodput, samples/s", within=".totals")
    browser.sees("train loss", within=".log")
    browser.sees("Submitted", "GroupStarted", within="section[aria-label=Events]")
    wait_until("curves over time", lambda: browser.counts(".cards svg.chart polyline") >= 8)
    browser.sees("Gradient noise scale", "loss")
    wait_until("the predicted curve", lambda: browser.counts("section[aria-label='Goodput by number of replicas'] svg circle") == 2)
    browser.sees("predicted best: ", within="section[aria-label='Goodput by number of replicas']")
    wait_until("its decision is explained", lambda: browser.counts("section[aria-label='Why it has what it has'] li") > 0)
    browser.click("section[aria-label='Batch size'] summary")
    browser.sees("value", within="section[aria-label='Batch size'] table")
    browser.click("section[aria-label='Batch size'] summary")
    wait_until("its second replica, marked", lambda: int(cluster.job("digits")["status"]["rescales"]) > 0
               and browser.counts("section[aria-label=Replicas] svg .mark") > 0)
    looks_well(browser, "job")
    browser.picture("job")

    goes_to(browser, "timeline", "Timeline")
    wait_until("a bar", lambda: browser.counts("svg.chart rect") >= 2)
    looks_well(browser, "timeline")
    browser.picture("timeline")
    goes_to(browser, "cluster", "Cluster")
    wait_until("where it runs", lambda: browser.counts(".slots svg") == 2)
    browser.sees("cores busy", "GiB of memory in use")
    looks_well(browser, "cluster")
    browser.picture("cluster")
    goes_to(browser, "pools", "Pools and cost")
    browser.sees("digits", within="section[aria-label^=Cost]")
    looks_well(browser, "pools")
    browser.picture("pools")


def scaled_and_cancelled(browser, cluster):
    """Nothing without a confirmation."""
    goes_to(browser, "job/default/digits", "digits")
    browser.click("button", "Scale…")
    browser.sees("At least", within="dialog")
    looks_well(browser, "dialog")
    browser.picture("dialog")
    browser.fill("dialog label:nth-of-type(2) input", "1")
    browser.click("dialog button", "Leave it as it is")
    assert browser.counts("dialog") == 0
    assert cluster.job("digits")["spec"]["maxReplicas"] == 2, "it was scaled without a confirmation"
    browser.click("button", "Scale…")
    browser.fill("dialog label:nth-of-type(1) input", "2")
    browser.fill("dialog label:nth-of-type(2) input", "1")
    browser.click("dialog button", "Scale")
    browser.sees("max_replicas", within="dialog [role=alert]")  # what is wrong with it
    browser.complaints()
    browser.fill("dialog label:nth-of-type(1) input", "1")
    browser.click("dialog button", "Scale")
    wait_until("it is scaled", lambda: cluster.job("digits")["spec"]["maxReplicas"] == 1)
    browser.sees("of 1 to 1", within=".totals")
    browser.click("button", "Cancel…")
    browser.keys("\ue00c")  # Escape
    wait_until("the dialog is gone", lambda: browser.counts("dialog") == 0)
    assert "Running" in browser.text(".totals") or "Rescaling" in browser.text(".totals")
    browser.click("button", "Cancel…")
    browser.click("dialog button", "Cancel the job")
    browser.sees("Cancelled", within=".totals")
    wait_until("nothing is left to do", lambda: browser.counts("main > div > div > .bar button") == 0)
    looks_well(browser, "cancelled job")


def by_the_keyboard(browser, url):
    browser.open("about:blank")  # so that the page is a new one, with nothing focused
    browser.open(f"{url}#/jobs")
    browser.sees("digits", within="table.jobs")
    browser.tab()
    assert browser.asks("focused") == {"text": "Skip to content", "tag": "A", "outline": True}, browser.asks("focused")
    seen = []
    for _ in range(30):
        browser.tab()
        focus = browser.asks("focused")
        if focus["tag"] == "BODY":
            break
        assert focus["outline"], f"it does not show that {focus} has the focus"
        seen.append(focus["text"])
    for text in ("Jobs", "Timeline", "Cluster", "Pools and cost", "namespace", "Dark", "Name", "Replicas", "digits"):
        assert text in seen, f"{text} is not reached by Tab: {seen}"
    browser.driver.execute_script("document.querySelector('table.jobs th button').focus()")
    browser.keys("\ue007")  # Enter
    assert browser.all("th[aria-sort]")[0].text == "Name"
    browser.driver.execute_script("document.querySelector('nav a[href=\"#/cluster\"]').focus()")
    browser.keys("\ue007")
    wait_until("the page by Enter", lambda: browser.text("h1") == "Cluster")
    assert browser.all("nav a[aria-current=page]")[0].text == "Cluster"
    assert browser.asks("focused")["tag"] == "MAIN", "a screen reader would not notice the new page"


def in_the_dark(browser):
    light = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.click("#theme", "Dark")
    browser.driver.refresh()
    wait_until("the theme stays", lambda: browser.driver.execute_script("return document.documentElement.dataset.theme") == "dark")
    assert browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor") != light
    for page, heading in {**PAGES, "job/default/digits": "digits"}.items():
        goes_to(browser, page, heading)
        wait_until(f"{page} is filled", lambda: browser.counts("main .card, main .totals > *") > 0)
        looks_well(browser, f"{page} in the dark")
        browser.picture(f"dark-{heading}")
    browser.click("#theme", "Light")


def on_a_phone(browser):
    browser.size(PHONE, phone=True)
    for page, heading in {**PAGES, "job/default/digits": "digits"}.items():
        goes_to(browser, page, heading)
        wait_until(f"{page} is filled", lambda: browser.counts("main .card, main .totals > *") > 0)
        looks_well(browser, f"{page} on a phone")
        assert browser.asks("tiny") == [], browser.asks("tiny")
        browser.picture(f"phone-{heading}")
    found = browser.asks("overlappingWhateverIsShown")
    assert found == [], found
    browser.size(DESK)


def in_a_hidden_window(browser):
    """Which draws no frames: what is changed meanwhile must not pile up for the next one."""
    def frames_asked_for():
        browser.driver.execute_script("window.asked = []; window.frame = requestAnimationFrame; window.requestAnimationFrame = (draw) => asked.push(draw)")
        for text in ("many-1", "many-2", "many-3", ""):
            browser.fill("input[type=search]", text)
        asked = browser.driver.execute_script("window.requestAnimationFrame = frame; asked.forEach((draw) => frame(draw)); return asked.length")
        assert asked <= 1, f"{asked} frames are asked for"
        return asked

    # None at all, while one of before is still to come.
    wait_until("a frame is asked for", frames_asked_for)


def with_hundreds(browser, cluster):
    """That all wait for a third node."""
    goes_to(browser, "jobs", "Jobs")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: cluster.run("submit", "--name", f"many-{i}", "--min-replicas", 3, "--max-replicas", 3, "--", "true"), range(MANY)))
    total = MANY + 1
    browser.sees(f"{total} of {total} jobs")
    assert browser.counts("table.jobs tbody tr") == total
    whole = {"row": total + 1, "columnheader": 10, "cell": 10 * total}
    wait_until(lambda: f"{whole} for screen readers: {browser.roles('table.jobs')}",
               lambda: whole.items() <= browser.roles("table.jobs").items())
    in_a_hidden_window(browser)
    browser.fill("input[type=search]", "many-499")
    browser.sees(f"1 of {total} jobs")
    browser.fill("input[type=search]", "nothing such")
    browser.sees("No job matches")
    browser.fill("input[type=search]", "")
    browser.driver.execute_script("const which = document.querySelector('main select'); which.value = 'Waiting'; which.dispatchEvent(new Event('change'))")
    browser.sees(f"{MANY} of {total} jobs")
    browser.sees(str(MANY), within=".totals")
    looks_well(browser, "hundreds of jobs")
    browser.picture("hundreds")
    for page in ("timeline", "cluster", "pools"):
        goes_to(browser, page, PAGES[page])
        wait_until(f"{page} is filled", lambda: browser.counts("main .card, main .totals > *") > 0)
    looks_well(browser, "cost of hundreds")


def signed_in(url, token):
    """To the dashboard of the supervisor, and out of it."""
    with Browser() as browser:
        browser.size(DESK)
        browser.open(url)
        browser.sees("Your token")
        looks_well(browser, "sign in")
        browser.picture("sign-in")
        browser.keys("guessed", "\ue007")  # the field has the focus
        browser.sees("does not know the token", within="[role=alert]")
        browser.complaints()
        browser.keys(token, "\ue007")
        browser.sees("digits", within="table.jobs")
        assert token not in browser.driver.page_source
        browser.page("job/default/digits")
        browser.sees("train loss", within=".log")
        looks_well(browser, "signed in")
        browser.click("#leave", "Sign out")
        browser.sees("Your token")
        browser.open(f"{url}#/jobs")
        browser.sees("Your token")


def opened_again_and_again(browser, url):
    """More often than a browser opens connections to one server."""
    for _ in range(8):
        browser.open("about:blank")
        browser.open(url)
        browser.sees(f"{MANY + 1} of {MANY + 1} jobs", patience=20)


def in_a_namespace_without_jobs(browser):
    goes_to(browser, "jobs", "Jobs")
    browser.fill("#namespace", "nobodys")
    browser.sees("No jobs here yet")
    browser.fill("#namespace", "*")
    browser.sees("default/digits", within="table.jobs")
    browser.fill("#namespace", "default")


def without_a_supervisor(browser, cluster):
    goes_to(browser, "jobs", "Jobs")
    browser.sees("digits", within="table.jobs")
    cluster.kill_supervisor()
    browser.sees("Connection lost", within="#connection")
    assert "digits" in browser.text("table.jobs"), "what was known is gone"
    assert "the supervisor does not answer" in browser.text("#connection"), browser.text("#connection")
    for page, heading in {**PAGES, "job/default/digits": "digits"}.items():
        goes_to(browser, page, heading)
        assert "Connection lost" in browser.text("#connection"), page
        assert browser.asks("overflow") <= 0 and browser.asks("faint") == [], (page, browser.asks("faint"))
    browser.picture("dead")
    cluster.up()
    wait_until("it is connected again", lambda: browser.text("#connection") == "")
    goes_to(browser, "jobs", "Jobs")
    browser.sees("digits", within="table.jobs")
    # The requests that failed are on the console.
    browser.complaints()


def without_the_dashboard(browser, cluster):
    cluster.close_dashboard()
    browser.sees("Connection lost", within="#connection")
    browser.complaints()


def main():
    if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
        print("SKIPPED: no Chromium with its driver; scripts/setup.sh installs them", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as name, Cluster(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(name) / "home") as cluster:
        with Browser() as browser:
            browser.size(DESK)
            url = cluster.open_dashboard()
            own = url.partition("?")[0]
            the_key_admits_once(browser, url)
            without_jobs(browser)
            a_job_trains(browser, cluster)
            scaled_and_cancelled(browser, cluster)
            signed_in(*cluster.served_dashboard())
            by_the_keyboard(browser, own)
            in_the_dark(browser)
            on_a_phone(browser)
            with_hundreds(browser, cluster)
            opened_again_and_again(browser, own)
            in_a_namespace_without_jobs(browser)
            without_a_supervisor(browser, cluster)
            without_the_dashboard(browser, cluster)
            elsewhere = [requested for requested in browser.requested()
                         if not requested.startswith((own, "data:", "chrome:", "about:"))]
            assert not elsewhere, f"asked of others: {elsewhere}"
    print("all pages are as they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
