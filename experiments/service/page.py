"""How fluid the page is with a large matrix: frames and long tasks in Chromium while it solves, scrolls and is edited.

    python -m experiments.service.page               # 200 × 50, five seconds of search
    python -m experiments.service.page --picture     # instead, take the picture of the page in docs/serving.md

Starts a server and a browser of its own, and prints one JSON object: for each thing done, how many frames there were a
second, the longest time between two, and the tasks that blocked the page for more than 50 ms.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from experiments.service.load import server

PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
WATCH = """() => {
  const seen = window.seen = { frames: [], tasks: [] };
  new PerformanceObserver(list => seen.tasks.push(...list.getEntries().map(entry => entry.duration)))
    .observe({ entryTypes: ["longtask"] });
  const frame = now => { seen.frames.push(now); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""
CLEAR = "() => { seen.frames = []; seen.tasks = []; }"


def seen(page: Any) -> dict[str, float]:
    """Return what was seen since the last time, and begin anew."""
    found = page.evaluate("() => seen")
    page.evaluate(CLEAR)
    frames = found["frames"]
    gaps = [after - before for before, after in pairwise(frames)] or [0.0]
    seconds = (frames[-1] - frames[0]) / 1000 if len(frames) > 1 else 1.0
    return {
        "frames_per_second": round(len(gaps) / seconds, 1),
        "longest_frame_ms": round(max(gaps), 1),
        "long_tasks": len(found["tasks"]),
        "longest_task_ms": round(max(found["tasks"], default=0.0), 1),
    }


@contextmanager
def opened(width: int) -> Iterator[Any]:
    """Yield the page of a server of its own in a browser."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with server([]) as (port, _), sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("html[data-ready]")
        yield page
        browser.close()


def take_picture() -> None:
    """Solve the first example, and take a picture of the page."""
    with opened(1320) as page:
        page.click("#solve")
        page.wait_for_selector("#downloads:not([hidden])")
        page.screenshot(path=PICTURE)
    print(f"{PICTURE} was written")


def main() -> None:
    """Solve, scroll and edit the large example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", action="store_true", help="take the picture of the page")
    if parser.parse_args().picture:
        take_picture()
        return
    results = {}
    with opened(1280) as page:
        page.evaluate(WATCH)
        page.select_option("#example", "large")
        page.wait_for_timeout(300)
        results["open"] = seen(page)
        page.fill("#time", "3")
        page.click("#solve")
        page.wait_for_selector("#drawing-figure:not([hidden])")
        page.wait_for_timeout(1000)
        results["solving"] = seen(page)
        page.mouse.move(300, 500)
        for _ in range(60):
            page.mouse.wheel(40, 90)
            page.wait_for_timeout(16)
        results["scrolling while solving"] = seen(page)
        page.wait_for_selector("#downloads:not([hidden])")
        page.locator("#grid [role=gridcell]").nth(40).click()
        page.evaluate(CLEAR)
        for _ in range(40):
            page.keyboard.press("ArrowDown")
        results["arrow keys"] = seen(page)
        for _ in range(10):
            page.keyboard.type("42")
            page.keyboard.press("Enter")
        results["typing"] = seen(page)
    print(json.dumps({"measured": "page", "matrix": "200 × 50", **results}))


if __name__ == "__main__":
    main()
