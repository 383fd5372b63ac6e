#!/usr/bin/env python3
"""Opens a report of `kvt report` in headless Chromium, and checks that it works.

    kvt report runs/quickstart/dense runs/quickstart/knn --eval --samples 12 --out report.html
    scripts/report_check.py report.html [--out FOLDER] [--chromium PROGRAM]

Screenshots of the whole page at 400 and 1200 px, light and dark, of the values under the pointer, and as it prints (also a PDF)
go into FOLDER (default `report-check`): look at them. It fails

- if the browser's console or its log has any message of level warning or error, such as a violation of the page's security policy;
- if the page requests anything besides itself and its own data;
- if the page is wider than the window;
- if a line does not show its numbers under the pointer, or cannot be switched off;
- if the page without scripts lacks a curve.

Needs Chromium and nothing else: it talks to the browser through a pipe (the DevTools protocol).
"""

import argparse
import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
]
SIZES = {"phone": (400, 800), "desktop": (1200, 900)}
POINTER = """
(() => {
  const found = [];
  for (const figure of document.querySelectorAll("figure.chart")) {
    const axes = figure.querySelector(".axes");
    const box = axes.getBoundingClientRect();
    const at = { clientX: box.left + box.width * 0.9, clientY: box.top + box.height / 2, bubbles: true };
    axes.dispatchEvent(new PointerEvent("pointermove", at));
    const tip = figure.querySelector(".tip");
    const shown = !tip || tip.hidden ? 0 : tip.childElementCount - 1;
    const lines = axes.querySelectorAll(".series").length;
    const key = figure.querySelector(".key");
    key.click();
    const off = getComputedStyle(axes.querySelector(".series")).display === "none";
    key.click();
    const on = getComputedStyle(axes.querySelector(".series")).display !== "none";
    found.push({ shown, lines, off, on, title: figure.querySelector("figcaption").textContent });
  }
  return found;
})()
"""
TIP = """
(() => {
  const axes = document.querySelector("figure.chart .axes");
  const box = axes.getBoundingClientRect();
  const at = { clientX: box.left + box.width * 0.6, clientY: box.top + box.height / 2, bubbles: true };
  axes.dispatchEvent(new PointerEvent("pointermove", at));
})()
"""


class Browser:
    """A browser with one tab, controlled through a pipe."""

    def __init__(self, program, profile):
        # High numbers, so that 3 and 4, which the browser reads and writes, are free.
        to_browser, from_browser = os.pipe(), os.pipe()
        high = lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD, 20)
        theirs = [high(to_browser[0]), high(from_browser[1])]
        self.write_end, self.read_end = to_browser[1], from_browser[0]
        # A small program moves them to 3 and 4: a shell may not support numbers above 9.
        start = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
        flags = [*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, *map(str, theirs), program, *flags],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in [*theirs, to_browser[0], from_browser[1]]:
            os.close(fd)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 20)
            if not part:
                sys.exit("error: the browser ended; does it start by itself?")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"error: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, address, dark=False, scripts=True, media=""):
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        self.events = [event for event in self.events if event["method"] != "Page.loadEventFired"]

    def size(self, width, height, phone):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            sys.exit(f"error: {expression.strip()[:60]}...: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def shot(self, path, whole=True):
        # The latest state is on the screen only after the next frames.
        self.call("Runtime.evaluate", awaitPromise=True, expression="new Promise(r => setTimeout(r, 300))")
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def end(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(timeout=30)


def complaints(browser, address):
    """Messages and requests that the page should not have caused."""
    found = []
    for event in browser.events:
        method, what = event["method"], event.get("params", {})
        if method == "Runtime.exceptionThrown":
            found.append(f"an exception: {what['exceptionDetails']}")
        elif method == "Runtime.consoleAPICalled" and what["type"] in ["error", "warning", "assert"]:
            found.append(f"the console: {what['args']}")
        elif method == "Log.entryAdded" and what["entry"]["level"] in ["error", "warning"]:
            found.append(f"the log: {what['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            asked = what["request"]["url"]
            if asked != address and not asked.startswith("data:") and asked != "about:blank":
                found.append(f"the page asks for {asked[:200]}")
    browser.events = []
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--out", type=Path, default=Path("report-check"))
    parser.add_argument("--chromium", default=None)
    args = parser.parse_args()
    known = ["chromium", "chromium-browser", "google-chrome"]
    program = args.chromium or next(filter(None, map(shutil.which, known)), None)
    if program is None:
        sys.exit("error: there is no Chromium: install it, or name it with `--chromium`")
    if not args.report.is_file():
        sys.exit(f"error: no report `{args.report}`")
    args.out.mkdir(parents=True, exist_ok=True)
    address = args.report.resolve().as_uri()
    failed = []
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        for name, (width, height) in SIZES.items():
            for dark in [False, True]:
                browser.size(width, height, name == "phone")
                browser.open(address, dark)
                scheme = "dark" if dark else "light"
                browser.shot(args.out / f"{name}-{scheme}.png")
                wide = browser.value("document.documentElement.scrollWidth")
                if wide > width:
                    failed.append(f"{name}: the page is {wide} px wide in a window of {width}")
                for chart in browser.value(POINTER):
                    if not (0 < chart["shown"] <= chart["lines"] and chart["off"] and chart["on"]):
                        failed.append(f"{name}, {scheme}: the chart does not work: {chart}")
                if not dark:
                    browser.value(TIP)
                    browser.value("document.getElementById('curves').scrollIntoView({behavior: 'instant'})")
                    browser.shot(args.out / f"{name}-pointer.png", whole=False)
                failed += complaints(browser, address)
        charts = browser.value("document.querySelectorAll('.axes').length")
        # The width of A4 at 96 pixels per inch, less the margins.
        browser.size(690, 900, False)
        browser.open(address, dark=True, media="print")
        browser.shot(args.out / "print.png")
        browser.size(*SIZES["desktop"], False)
        browser.open(address, scripts=False)
        still = browser.value("document.querySelectorAll('.axes .line[points]:not([points=\"\"])').length")
        named = browser.value("document.querySelectorAll('figure.chart .key').length")
        if not charts or still != named:
            failed.append(f"without scripts {still} of {named} lines are drawn in {charts} charts")
        failed += complaints(browser, address)
        data = browser.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        (args.out / "print.pdf").write_bytes(base64.b64decode(data))
        browser.end()
    for failure in failed:
        print(f"error: {failure}", file=sys.stderr)
    if failed:
        sys.exit(1)
    print(f"{charts} charts, {still} lines: works; pictures are in `{args.out}`")


if __name__ == "__main__":
    main()
