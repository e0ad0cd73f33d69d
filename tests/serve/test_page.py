"""The page in a real Chromium: paste, solve, watch, cancel, download, reload; by keyboard, on a phone, for axe."""

import base64
import csv
import functools
import http.server
import io
import itertools
import json
import shutil
import subprocess
import tarfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from .process import RunningServer

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (pip install icdc[dev])")

expect = playwright.expect
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (make browser)")
AXE = "axe-core@4.10.3"
SHOP = "job\tsaw\tmill\nframe\t7\t4\nlid\t3\t6\nleg\t5\t5\ntop\t9\t2\n"
DONE = "#downloads:not([hidden])"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any, running_server: RunningServer) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the page; whatever it logs as an error fails the test."""
    wrong: list[str] = []
    contexts: list[Any] = []

    def open_page(path: str = "/", **options: Any) -> Any:
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.goto(running_server.url + path)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


def paste(page: Any, text: str) -> None:
    page.evaluate(
        """text => { const data = new DataTransfer(); data.setData("text/plain", text);
        const event = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
        document.body.dispatchEvent(event); }""",
        text,
    )


def solve(page: Any, time: int = 0) -> None:
    page.fill("#time", str(time))
    page.click("#solve")
    page.wait_for_selector(f"{DONE}, #error:not([hidden])")
    assert page.is_hidden("#error"), page.inner_text("#error")


def cells(page: Any) -> list[str]:
    return page.locator("[role=gridcell]").all_inner_texts()


def test_paste_solve_watch_and_take_it_away(visit: Callable[..., Any]) -> None:
    page = visit()
    paste(page, SHOP)
    expect(page.locator("#subject")).to_contain_text("4 jobs on 2 machines")
    assert page.is_checked("#problem input[value=pmsp]")
    assert page.locator("[role=rowheader]").all_inner_texts() == ["frame", "lid", "leg", "top"]
    assert cells(page)[:4] == ["7", "4", "3", "6"]
    solve(page)
    matrix = [[7, 4], [3, 6], [5, 5], [9, 2]]
    best = min(
        max(sum(row[m] for row, chosen in zip(matrix, choice, strict=True) if chosen == m) for m in (0, 1))
        for choice in itertools.product((0, 1), repeat=4)
    )
    assert page.inner_text("#objective") == str(best)
    assert page.inner_text("#state") == "Proven optimal"
    assert "proven optimal" in page.inner_text("#words")
    assert page.locator("#drawing rect.bar").count() == 4
    assert page.locator("#curve .cost").count() == 1
    assert page.locator("#grid .on").count() == 4

    def saved(kind: str) -> tuple[str, bytes]:
        with page.expect_download() as waiting:
            page.click(f"[data-as={kind}]")
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()

    name, content = saved("csv")
    assert name == "pasted.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert [row["job"] for row in rows] == ["frame", "lid", "leg", "top"]
    assert max(float(row["end"]) for row in rows) == best
    assert json.loads(saved("json")[1])["objective"] == best
    assert saved("svg")[1].startswith(b"<svg")
    assert b"class=" not in saved("svg")[1]
    assert saved("png")[1].startswith(b"\x89PNG")


def test_a_spreadsheet_with_decimal_commas_and_names(visit: Callable[..., Any]) -> None:
    page = visit()
    paste(page, "Auftrag\tSäge\tFräse\nRahmen\t7,5\t4,25\nDeckel\t3,125\t6\n\u201eBein\u201c\t5,5\t5,75\n")
    expect(page.locator("#subject")).to_contain_text("3 jobs on 2 machines")
    assert page.locator("[role=rowheader]").all_inner_texts() == ["Rahmen", "Deckel", "\u201eBein\u201c"]
    assert cells(page) == ["7.5", "4.25", "3.125", "6", "5.5", "5.75"]
    page.locator("[data-cell='0,1']").click()
    page.keyboard.type("4,5")
    page.keyboard.press("Enter")
    assert cells(page)[1] == "4.5"
    solve(page)
    assert page.inner_text("#objective") == "8.625"  # the second and third on the saw, the first on the mill


def test_a_file_is_dropped(visit: Callable[..., Any], tmp_path: Path) -> None:
    page = visit()
    page.evaluate(
        """() => { const data = new DataTransfer();
        data.items.add(new File(["0,5,9\\n4,0,3\\n2,6,0\\n"], "towns.csv"));
        window.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})); }"""
    )
    page.wait_for_selector("#question:not([hidden])")
    assert "may be distances or processing times" in page.inner_text("#question")
    page.check("#problem input[value=atsp]", force=True)
    assert page.inner_text("#subject").startswith("3 cities")
    solve(page)
    assert page.inner_text("#objective") == "10"  # 0 → 1 → 2 → 0: 5 + 3 + 2
    assert page.locator("#drawing .leg").count() == 3
    page.click("#list-details summary")
    assert page.locator("#list tbody tr").count() == 3


def test_a_forbidden_pair_is_not_used(visit: Callable[..., Any]) -> None:
    page = visit()
    paste(page, SHOP)
    expect(page.locator("#subject")).to_contain_text("4 jobs on 2 machines")
    page.locator("[data-cell='3,1']").click()
    page.keyboard.press("Delete")
    expect(page.locator("#subject")).to_contain_text("1 forbidden")
    solve(page)
    assert page.inner_text("#objective") == "12"  # top on the saw, lid with it; the others on the mill
    assert "on" in page.locator("[data-cell='3,0']").get_attribute("class")


def test_stop_keeps_the_best_so_far(visit: Callable[..., Any]) -> None:
    page = visit()
    page.select_option("#example", "large")
    page.fill("#time", "6")
    page.click("#solve")
    page.wait_for_selector("#drawing-figure:not([hidden])")
    page.click("#stop")
    page.wait_for_selector(DONE)
    assert page.inner_text("#state").startswith("Stopped after")
    assert page.is_visible("#solve")
    assert int(page.inner_text("#objective")) > 0


def test_bad_input_gets_the_sentence_of_the_command_line(visit: Callable[..., Any]) -> None:
    page = visit()
    before = cells(page)
    paste(page, "saw,mill\n1,2\n3\n")
    page.wait_for_selector("#error:not([hidden])")
    assert page.inner_text("#error") == "pasted: line 3 has 1 cells where line 2 has 2"
    assert cells(page) == before
    page.locator("[data-cell='0,0']").click()
    page.keyboard.press("F2")
    page.keyboard.type("many")
    page.keyboard.press("Enter")
    page.click("#solve")
    assert "“many” in row Bracket, column Laser is not a number" in page.inner_text("#error")


def test_what_the_page_does_not_show_is_said(visit: Callable[..., Any]) -> None:
    """Sequences of jobs are solved by the server, and neither offered nor drawn here."""
    page = visit()
    before = cells(page)
    assert page.locator("#problem input").evaluate_all("boxes => boxes.map((box) => box.value)") == ["pmsp", "atsp"]
    paste(page, '{"problem": "setups", "setups": [[0, 3], [4, 0]]}')
    page.wait_for_selector("#error:not([hidden])")
    assert "“setups”, which the page does not show" in page.inner_text("#error")
    assert cells(page) == before
    assert "setups and flow shops" in page.inner_text("footer")


def test_a_reload_in_the_middle_loses_nothing(visit: Callable[..., Any]) -> None:
    page = visit()
    page.select_option("#example", "shop")
    page.fill("#time", "2")
    page.select_option("#solver", "network")
    page.click("#solve")
    page.wait_for_selector("#stop:not([hidden])")
    page.reload()
    page.wait_for_selector(DONE)
    assert page.inner_text("#subject").startswith("50 jobs on 5 machines")
    assert int(page.inner_text("#objective")) > 0


def test_everything_by_keyboard(visit: Callable[..., Any]) -> None:
    """To the matrix, into a cell, and on to the button, without a mouse."""
    page = visit()

    def tab_to(condition: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({json.dumps(condition)})"):
                return
        raise AssertionError(f"the keyboard does not reach {condition}")

    tab_to("[role=gridcell]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("77")
    page.keyboard.press("Enter")
    assert page.inner_text("[data-cell='1,1']") == "77"
    assert page.evaluate("document.activeElement.dataset.cell") == "2,1"
    page.keyboard.press("Control+End")
    assert page.evaluate("document.activeElement.dataset.cell") == "15,3"
    page.keyboard.press("Delete")
    assert page.locator("[data-cell='15,3']").get_attribute("aria-label") == "forbidden"
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    tab_to("#time")
    page.keyboard.press("Home")
    assert page.inner_text("#time-shown") == "0.5 s"
    tab_to("#solve")
    page.keyboard.press("Enter")
    page.wait_for_selector(DONE)
    assert page.evaluate("document.activeElement.id") == "solve"


def test_names_are_changed_by_keyboard(visit: Callable[..., Any]) -> None:
    page = visit()
    page.locator("[data-cell='0,0']").click()
    for key, name, place in (("ArrowUp", "Cutter", "-1,0"), ("ArrowDown", "", "0,0"), ("ArrowLeft", "Angle", "0,-1")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.cell") == place
        if name:
            page.keyboard.press("F2")
            page.keyboard.type(name)
            page.keyboard.press("Enter")
            assert page.inner_text(f"[data-cell='{place}']") == name
            assert page.evaluate("document.activeElement.dataset.cell") == place
    page.keyboard.press("Delete")  # a name is no pair
    assert "forbidden" not in page.inner_text("#subject")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("[data-cell='-1,0']") == "Cutter"


def test_a_finger_taps_twice_to_edit(visit: Callable[..., Any]) -> None:
    page = visit(viewport={"width": 375, "height": 760}, is_mobile=True, has_touch=True)
    cell = page.locator("[data-cell='1,1']")
    cell.tap()
    assert page.locator(".grid-edit").count() == 0
    cell.tap()
    page.locator(".grid-edit").fill("")
    page.keyboard.press("Enter")
    expect(page.locator("#subject")).to_contain_text("1 forbidden")


def test_a_phone_in_the_dark(visit: Callable[..., Any]) -> None:
    page = visit(viewport={"width": 375, "height": 760}, is_mobile=True, has_touch=True, color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.fill("#time", "0")
    page.tap("#solve")
    page.wait_for_selector(DONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.tap("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_a_large_matrix_has_few_elements(visit: Callable[..., Any]) -> None:
    page = visit()
    page.select_option("#example", "large")
    expect(page.locator("#grid")).to_have_attribute("aria-rowcount", "201")
    assert page.locator("[role=gridcell]").count() < 1500
    page.evaluate("document.getElementById('grid').scrollTo(1e6, 1e6)")
    page.wait_for_selector("[data-cell='199,49']")
    assert page.locator("[role=gridcell]").count() < 1500


def test_a_link_holds_the_instance(visit: Callable[..., Any]) -> None:
    page = visit()
    paste(page, SHOP)
    expect(page.locator("#subject")).to_contain_text("4 jobs")
    page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text; }")
    page.click("#share")
    expect(page.locator("#toast")).to_contain_text("is copied")
    link = page.evaluate("window.copied")
    other = visit("/" + link.split("/", 3)[3])
    assert other.locator("[role=rowheader]").all_inner_texts() == ["frame", "lid", "leg", "top"]
    assert cells(other)[:4] == ["7", "4", "3", "6"]
    broken = visit("/#m=AAAA")
    assert broken.inner_text("#subject").startswith("16 jobs")
    assert "cannot be read" in broken.inner_text("#error")


def test_a_link_that_is_too_long_says_so(visit: Callable[..., Any]) -> None:
    page = visit()
    sentence = page.evaluate(
        """async () => { const share = await import("/js/share.js");
        const matrix = Array.from({length: 120}, () => Array.from({length: 120}, () => Math.random()));
        return share.linkTo({problem: "pmsp", name: "", matrix}).catch(error => error.message); }"""
    )
    assert "characters" in sentence
    assert "Send the file instead" in sentence


@pytest.mark.parametrize(
    "plain",
    [
        {"problem": "pmsp", "matrix": [[1, 2], [3]]},
        {"problem": "pmsp", "matrix": [["<b>", 1]]},
        {"problem": "pmsp", "matrix": [[1]], "rows": [{"toString": 1}]},
        {"problem": "pmsp", "matrix": [[1]], "coordinates": [[1]]},
        {"problem": "pmsp", "matrix": "x" * 20_000_000},
        {"problem": "__proto__", "matrix": [[1]]},
        {"problem": "constructor", "matrix": [[1]]},
        {"problem": "nothing", "matrix": [[1]]},
        None,
    ],
)
def test_links_of_strangers_are_not_believed(visit: Callable[..., Any], plain: Any) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(json.dumps(plain).encode()) + packer.flush()
    page = visit("/#m=" + base64.urlsafe_b64encode(packed).decode().rstrip("="))
    assert "cannot be read" in page.inner_text("#error")
    assert page.inner_text("#subject").startswith("16 jobs")
    assert "#" not in page.url


MARKED = """() => { const canvas = document.getElementById("noise");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let marked = 0; for (let i = 3; i < data.length; i += 4) marked += data[i] > 128; return marked; }"""


def test_the_current_solution_goes_through_noise_and_back(visit: Callable[..., Any]) -> None:
    """The first picture is the current solution, the last one that which stays, and between them there is noise."""
    page = visit()
    page.click("#denoise")
    expect(page.locator("#denoise-words")).to_contain_text("From nothing but noise the network came to", timeout=30_000)
    assert "There is no solution yet" in page.inner_text("#denoise-hint")
    solve(page)
    assert page.is_hidden("#denoise-view")
    cost = page.inner_text("#objective")
    page.click("#denoise")
    expect(page.locator("#denoise-words")).to_contain_text("The network came back", timeout=30_000)
    assert "Noise is added to the current solution" in page.inner_text("#denoise-hint")
    assert cost in page.inner_text("#denoise-words")
    last = int(page.get_attribute("#scrub", "max"))
    shown = {}
    for place in (0, 1, last - 1, last):
        page.fill("#scrub", str(place))
        shown[place] = page.inner_text("#step"), page.inner_text("#step-cost"), page.evaluate(MARKED)
    assert shown[0][0] == "the current solution"
    assert shown[1][0].startswith("noise added")
    assert shown[last - 1][0].startswith("noise removed")
    assert shown[last][:2] == ("the solution that stays", f"cost {cost}")
    assert shown[0][2] == shown[last][2] > 0
    page.fill("#scrub", str(last // 2))
    assert page.evaluate(MARKED) != shown[0][2]


def test_rivals_are_shown_side_by_side(visit: Callable[..., Any]) -> None:
    page = visit()
    page.select_option("#example", "round")
    while page.locator("#picks input:checked").count():
        page.locator("#picks input:checked").first.uncheck()
    for name in ("icdc", "nn"):
        page.check(f"#picks input[value={name}]")
    page.fill("#time", "0")
    page.click("#compare")
    page.wait_for_selector("#compare:not([disabled])")
    costs = [int(text.replace("\u2009", "")) for text in page.locator(".rival .big").all_inner_texts()]
    assert len(costs) == 2
    assert costs[0] <= costs[1]
    assert page.locator(".rival svg").count() == 2
    assert page.locator(".rival.best").count() >= 1
    said = page.locator(".rival .more").all_inner_texts()
    assert said[0].startswith(("proven optimal", "gap"))
    if costs[1] > costs[0] and "proven" in said[0]:  # measured by what the other has proven
        assert float(said[1].split()[1]) == pytest.approx(100 * (costs[1] - costs[0]) / costs[0], abs=0.01)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """The address of another page."""
    (tmp_path / "index.html").write_text("<!doctype html><title>x</title>")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_a_page_of_somebody_else_can_do_nothing(browser: Any, running_server: RunningServer, elsewhere: str) -> None:
    """Neither a script nor a form, a picture or a frame of another page gets a job begun or a word read."""

    def counted() -> tuple[float, float]:
        lines = httpx.get(f"{running_server.url}/metrics", timeout=30).text.splitlines()
        jobs = sum(float(line.split()[-1]) for line in lines if line.startswith("icdc_jobs_total"))
        refused = sum(float(line.split()[-1]) for line in lines if 'code="403"' in line)
        return jobs, refused

    jobs, refused = counted()
    context = browser.new_context()
    page = context.new_page()
    page.goto(elsewhere)
    url = running_server.url
    read = page.evaluate(
        """async url => { const tries = [
            fetch(`${url}/v1/jobs?problem=pmsp`, {method: "POST", mode: "no-cors", body: "1,2\\n3,4\\n"}),
            fetch(`${url}/v1/problems`), fetch(`${url}/v1/jobs/x`, {method: "DELETE"})];
        const ends = await Promise.allSettled(tries);
        return ends.map(end => end.status === "fulfilled" ? end.value.type : "refused"); }""",
        url,
    )
    assert read == ["refused"] * 3
    page.set_content(
        f"""<form id=f method=post enctype=text/plain action="{url}/v1/jobs?problem=pmsp" target=t>
        <input name="1,2" value="3"></form><iframe name=t></iframe><img src="{url}/v1/problems">"""
    )
    page.evaluate("document.getElementById('f').submit()")
    deadline = time.monotonic() + 20
    while counted()[1] < refused + 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    after = counted()
    context.close()
    assert after[0] == jobs
    assert after[1] >= refused + 4


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe, fetched once; skipped where it cannot be."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core cannot be fetched: npm is not installed")
    try:
        packed = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, timeout=40, check=True, text=True)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("axe-core cannot be fetched")
    with tarfile.open(folder / packed.stdout.strip().splitlines()[-1]) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Callable[..., Any], axe: str, scheme: str) -> None:
    page = visit(color_scheme=scheme)
    solve(page)
    page.click("#list-details summary")
    page.evaluate(axe)
    found = page.evaluate(
        "axe.run(document).then(result => result.violations.map(v => [v.impact, v.id, v.nodes[0].html]))"
    )
    assert [one for one in found if one[0] in ("serious", "critical")] == []
