"""plan.html as a person opens it: in a browser without a network, on a phone, on a desktop, in the dark, on paper.

plan_page.py PROGRAM [--folder FOLDER] [--large]     exit 0 where all is well, 77 where no browser is found

The pictures stay in FOLDER. --large plans a step of 27B on an H800 (examples/).
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

import browser
import tiny_run

MOST_BYTES = 2_000_000
MOST_PROCESSOR = 2  # seconds of processor time to open and draw the page, the browser's own included, the best of three

# 27B on an H800, cut into 18 calls of a layer: from files, nothing is measured.
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
LARGE = ["--model", EXAMPLES / "models" / "qwen3.6-27b", "--machine", EXAMPLES / "machines" / "h800-80g.json", "--batch", "72",
         "--tokens", "1024", "--micro-batch", "4", "--optimizer", "adamw_8bit", "--host-pool", "64GB"]


class Report:
    def __init__(self):
        self.wrong = []

    def check(self, name, holds, told=""):
        print(f"  {'ok   ' if holds else 'WRONG'} {name}" + (f": {told}" if told and not holds else ""), flush=True)
        if not holds:
            self.wrong.append(name)


def look(shown, page, report, name, width, height, picture, **how):
    """Opens the page in a window and keeps a picture; milliseconds of drawing and seconds of processor time."""
    before = shown.processor_seconds()
    shown.open(page, width, height, **how)
    root = "document.documentElement"
    error = shown.evaluate(f"{root}.dataset.error || ''")
    drawn = float(shown.evaluate(f"{root}.dataset.drawn || '-1'"))
    used = shown.processor_seconds() - before
    report.check(f"{name}: drawn", drawn >= 0 and not error, error or "no mark that it was drawn")
    wide = shown.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
    report.check(f"{name}: no sideways scrolling", wide <= 0, f"{wide} pixels too wide")
    shown.screenshot(picture)
    complaints = shown.complaints(page)
    report.check(f"{name}: no complaint", not complaints, "; ".join(complaints))
    return drawn, used


def use(shown, report):
    """A few of the things that a person does with the timeline."""
    text = "document.getElementById('operation').textContent"
    shown.evaluate("document.getElementById('zoom-in').click(); document.getElementById('zoom-in').click()")
    window = shown.evaluate("document.getElementById('zoom-window').textContent || "
                            "new Promise(done => setTimeout(() => done(document.getElementById('zoom-window').textContent), 200))")
    report.check("zoomed in, it says which part of the step is seen", " to " in (window or ""), window)
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        shown.evaluate(f"document.getElementById('timeline').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
    report.check("arrow keys walk from operation to operation", "Operation" in shown.evaluate(text), shown.evaluate(text))
    shown.evaluate("""(() => { const canvas = document.getElementById('canvas'), at = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new MouseEvent('click', {clientX: at.left + at.width / 2, clientY: at.top + 50})); })()""")
    report.check("a tap tells what an operation is", " on compute, simulated" in shown.evaluate(text), shown.evaluate(text))
    shown.evaluate("document.getElementById('zoom-fit').click()")


def look_at_run(program, shown, config, report, folder):
    """A run that draws its second step."""
    out = folder / "run"
    subprocess.run([program, "train", config, f"output_dir={out}", "overwrite_output_dir=true", "max_steps=3", "save_steps=0",
                    "trace_step=2"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    look(shown, out / "plan.html", report, "a run's page", 1280, 900, folder / "run.png")
    text = shown.evaluate("document.body.innerText")
    report.check("it shows what was measured", "Step, measured" in text and "step 2 of a run" in text)
    processes = {event["pid"] for event in json.loads((out / "trace.json").read_text())["traceEvents"]}
    report.check("the trace holds both steps", processes == {1, 2}, str(processes))


def accessible(shown, report):
    def none(what, selector):
        count = shown.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")
        report.check(what, count == 0, f"{count} elements")

    report.check("it has a title and a language", shown.evaluate("document.title.length > 10 && document.documentElement.lang === 'en'"))
    none("every table has a caption", "table:not(:has(> caption))")
    none("every heading of a table says its direction", "th:not([scope])")
    none("every picture has a text", "[role=img]:not([aria-label]), svg:not([aria-label])")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("plan-page"))
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    page, trace = folder / "plan.html", folder / "trace.json"

    tiny_run.keep_costs_in(folder / "costs")
    what = LARGE if options.large else [tiny_run.make(
        folder / "tiny", memory_model="emulated", device_memory="20MB", link_h2d_gbps=1, link_d2h_gbps=1)]
    began = time.monotonic()
    subprocess.run([options.program, "plan", *what, "--out", folder / "plan.json", "--page", page, "--trace", trace],
                   check=True, stdin=subprocess.DEVNULL, stdout=sys.stdout if options.large else subprocess.DEVNULL)
    report = Report()
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    print(f"  {len(events)} operations, planned in {time.monotonic() - began:.1f} s; page {page.stat().st_size:,} bytes, "
          f"trace {trace.stat().st_size:,} bytes")
    report.check("the page is small", page.stat().st_size <= MOST_BYTES, f"{page.stat().st_size} bytes")

    program = browser.find()
    if program is None:
        print("SKIPPED: no Chromium is installed (Debian: apt-get install chromium), so nobody looked at the page")
        return 77 if not report.wrong else 1
    shown = browser.Browser(program)
    try:
        looks = [look(shown, page, report, "desktop", 1280, 900, folder / "desktop.png")]
        accessible(shown, report)
        use(shown, report)
        looks.append(look(shown, page, report, "phone", 390, 844, folder / "phone.png", phone=True))
        looks.append(look(shown, page, report, "dark", 1280, 900, folder / "dark.png", dark=True))
        drawn, used = map(min, zip(*looks))
        report.check("drawn fast", used <= MOST_PROCESSOR, f"{used:.2f} s of processor time")
        report.check("there is a picture for the printer", shown.evaluate(
            "(async () => { const paper = document.getElementById('paper'); await paper.decode(); return paper.naturalWidth; })()") > 1000)
        shown.pdf(folder / "plan.pdf")
        if not options.large:
            look_at_run(options.program, shown, what[0], report, folder)
        report.check("printed", (folder / "plan.pdf").stat().st_size > 10_000)
    finally:
        shown.close()
    print(f"  drawn in {drawn:.0f} ms, {used:.2f} s of processor time with the browser's own; pictures in {folder}")
    if options.large:
        print(f"plan-page: {'FAIL' if report.wrong else 'PASS'} ({len(events)} operations, {page.stat().st_size:,} bytes, drawn in "
              f"{drawn:.0f} ms, {used:.2f} s of processor time, {len(report.wrong)} wrong)")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
