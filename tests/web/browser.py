"""Chromium without a window, and what tests want to know of a page in it."""

import collections
import json
import os
import pathlib
import time

from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PATIENCE = 60  # for slow machines
DESK = (1280, 900)
PHONE = (375, 720)
QUESTIONS = (pathlib.Path(__file__).parent / "page.js").read_text(encoding="utf-8")


def wait_until(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {what() if callable(what) else what}")
        time.sleep(0.05)
    return found


class Browser:

    def __init__(self):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
                         "--no-proxy-server", f"--window-size={DESK[0]},{DESK[1]}"):
            options.add_argument(argument)
        options.accept_insecure_certs = True  # of clusters with an authority of their own
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options)
        self._pictures = os.environ.get("ADAPTDL_SCREENSHOTS", "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    # --- Going somewhere ---

    def open(self, url):
        self.driver.get(url)

    def page(self, name):
        """By the address after the "#"."""
        self.driver.execute_script("location.hash = arguments[0]", f"#/{name}")

    def size(self, size, phone=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": phone})

    # --- Seeing ---

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector="body"):
        """Of what is shown; empty where there is nothing such."""
        return self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def sees(self, *texts, within="body", patience=PATIENCE):
        for text in texts:
            wait_until(lambda text=text: f"{text!r} in {self.text(within)!r}", lambda text=text: text in self.text(within), patience)

    def counts(self, selector):
        return self.driver.execute_script("return document.querySelectorAll(arguments[0]).length", selector)

    def roles(self, selector):
        """How often each role is there for a screen reader."""
        self.driver.execute_cdp_cmd("Accessibility.enable", {})
        document = self.driver.execute_cdp_cmd("DOM.getDocument", {})["root"]["nodeId"]
        root = self.driver.execute_cdp_cmd("DOM.querySelector", {"nodeId": document, "selector": selector})["nodeId"]
        nodes = self.driver.execute_cdp_cmd("Accessibility.queryAXTree", {"nodeId": root})["nodes"]
        self.driver.execute_cdp_cmd("Accessibility.disable", {})
        return collections.Counter(node["role"]["value"] for node in nodes if not node["ignored"])

    def asks(self, question, *arguments):
        """A function of page.js."""
        return self.driver.execute_script(f"{QUESTIONS}\nreturn {question}(...arguments);", *arguments)

    def picture(self, name):
        if not self._pictures:
            return
        pathlib.Path(self._pictures).mkdir(parents=True, exist_ok=True)
        height = self.driver.execute_script("return Math.min(document.documentElement.scrollHeight, 4000)")
        width = self.driver.execute_script("return innerWidth")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.driver.save_screenshot(f"{self._pictures}/{name}.png")
        self.size(PHONE if width < 600 else DESK, width < 600)

    # --- Doing ---

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab(self, times=1):
        self.keys(*[Keys.TAB] * times)

    def click(self, selector, text=""):
        def clicked():
            try:
                for one in self.all(selector):
                    if one.is_displayed() and text in one.text:
                        one.click()
                        return True
            except (StaleElementReferenceException, ElementClickInterceptedException):
                pass  # the page was drawn anew meanwhile
            return False
        wait_until(f"{selector} with {text!r}", clicked)

    def fill(self, selector, text):
        self.driver.execute_script("""
            const [field, text] = [document.querySelector(arguments[0]), arguments[1]];
            field.focus(); field.value = text;
            field.dispatchEvent(new Event("input", {bubbles: true})); field.dispatchEvent(new Event("change", {bubbles: true}));
        """, selector, text)

    # --- What went on ---

    def complaints(self):
        """Of the console, since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requested(self):
        """URLs that were asked for over the network, since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]
