"""A headless Chromium that opens a file and says what it sees, driven over its DevTools pipe. Standard library only.

It has no network: every host name resolves to nothing, and requests of anything but the file are counted.
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The program, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="plan-page-")
        to_browser, from_browser = os.pipe(), os.pipe()

        def pipes():  # Chromium reads commands from 3 and answers on 4
            copies = os.dup(to_browser[0]), os.dup(from_browser[1])
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.profile}", "--remote-debugging-pipe",
             "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser[0])
        os.close(from_browser[1])
        self.to, self.answers = to_browser[1], from_browser[0]
        self.pending, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        with contextlib.suppress(OSError, RuntimeError):
            self.session = None
            self.call("Browser.close")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for descriptor in (self.to, self.answers):
            os.close(descriptor)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, deadline):
        while b"\0" not in self.pending:
            if not select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.pending += part
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self.message(deadline)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['text']}")
        return result["result"].get("value")

    def open(self, file, width, height, phone=False, dark=False):
        """Opens the file as a window of this size shows it."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        self.call("Emulation.setEmulatedMedia", media="",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=pathlib.Path(file).resolve().as_uri())
        deadline = time.monotonic() + 60
        while self.evaluate("document.readyState") != "complete":
            if time.monotonic() > deadline:
                raise RuntimeError("the page does not finish loading")
            time.sleep(0.02)

    def processor_seconds(self):
        """Processor time of all processes of the browser so far."""
        ticks = 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rsplit(")", 1)[1].split()  # from the state on
                if int(fields[3]) == self.process.pid:  # its session
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def complaints(self, file):
        """What the page wrote to the console as an error, threw, or asked the network for."""
        found, own = [], pathlib.Path(file).resolve().as_uri()
        for event in self.events:
            what = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    found.append("threw: " + what["exceptionDetails"].get("exception", {}).get("description", "?"))
                case "Log.entryAdded" if what["entry"]["level"] in ("error", "warning"):
                    found.append(f"console: {what['entry']['text']}")
                case "Runtime.consoleAPICalled" if what["type"] in ("error", "warning", "assert"):
                    found.append(f"console: {what['args']}")
                case "Network.requestWillBeSent" if not what["request"]["url"].startswith((own, "data:")):
                    found.append(f"asked for {what['request']['url'][:80]}")
        return found

    def screenshot(self, file):
        """The whole page, however long."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        pathlib.Path(file).write_bytes(base64.b64decode(image["data"]))

    def pdf(self, file):
        paper = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=False, paperWidth=8.27, paperHeight=11.69)
        pathlib.Path(file).write_bytes(base64.b64decode(paper["data"]))
