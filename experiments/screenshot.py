"""The picture of the page in docs/serving.md: `python -m experiments.screenshot` starts a server and takes it."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

OUT = Path(__file__).parents[1] / "docs" / "page.png"


def main() -> None:
    """Start a server, solve the first example in a browser, and take a picture of it."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = subprocess.Popen([sys.executable, "-m", "icdc", "serve", "--port", str(port)])
    try:
        _wait(port)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1320, "height": 900}, reduced_motion="reduce")
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_selector("html[data-ready]")
            page.click("#solve")
            page.wait_for_selector("#downloads:not([hidden])")
            page.screenshot(path=OUT)
            browser.close()
    finally:
        server.terminate()
        server.wait(30)
    print(f"{OUT} was written")


def _wait(port: int) -> None:
    """Wait until a server works."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("the server did not get ready")


if __name__ == "__main__":
    main()
