"""The site: built with warnings as errors, then every page opened in a browser, where there is one."""

import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest
from waiting import HANG_S

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MOST_BYTES = 30e6
AXE = ROOT / "build" / "axe" / "package" / "axe.min.js"  # make axe


@pytest.fixture(scope="module")
def site() -> Path:
    """Not in the folders of `make docs`, whose site is left as it is.

    Notebooks stand in it without outputs, since tests/site/test_notebooks.py runs them. With SITE=whole in
    the environment they have theirs, from the cache of `make docs`, which runs those that have changed.
    """
    pytest.importorskip("myst_nb")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # two workers would build in the same folder
    directory = ROOT / "build" / f"site-test{worker}"
    notebooks = "cache" if os.environ.get("SITE") == "whole" else "off"
    command = ["sphinx", "-q", "-W", "--keep-going", "-D", f"nb_execution_mode={notebooks}", "-b", "html"]
    places = ["-c", "docs", "-d", f"build/doctrees-test{worker}", ".", str(directory)]
    done = subprocess.run(
        [sys.executable, "-m", *command, *places], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


@pytest.mark.slow
def test_the_site_is_small(site: Path) -> None:
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < MOST_BYTES


def test_make_docs_prints_the_file_to_open() -> None:
    command = ["make", "--dry-run", "--assume-old=.venv/installed", "docs"]
    # Under `make test`, an inner make prints the directory that it enters and leaves.
    outer = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    env = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f'echo "open {ROOT}/build/site/index.html"'


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_root_leads_to_the_landing_page(site: Path, tmp_path: Path) -> None:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    command = [CHROMIUM, *options, f"--user-data-dir={tmp_path}", (site / "index.html").as_uri()]
    page = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    assert 'id="furo-main-content"' in page


@pytest.mark.slow
def test_every_icon_is_drawn(site: Path) -> None:
    """The icons are those of docs/templates/partials/icons.html, and the theme chooses which it uses."""
    symbol = r'<symbol id="([^"]*)"'
    own = set(re.findall(symbol, (ROOT / "docs" / "templates" / "partials" / "icons.html").read_text()))
    page = (site / "docs" / "glossary.html").read_text()
    used = set(re.findall(r'<use href="#([^"]*)"', page))
    assert {"svg-menu", "svg-toc", "svg-sun", "svg-moon"} <= used <= own
    assert set(re.findall(symbol, page)) == own


@pytest.mark.slow
def test_the_side_bar_shows_no_sub_pages(site: Path) -> None:
    """It has the entries of the first page under six captions; sub-pages open with their parent."""
    page = (site / "docs" / "glossary.html").read_text()
    bar = page.split('class="sidebar-tree"', 1)[1].split("</aside>", 1)[0]
    captions = re.findall(r'<p class="caption"[^>]*><span class="caption-text">([^<]*)</span>', bar)
    assert captions == ["Get started", "Concepts", "Guides", "Results", "Reference", "About"]
    entries = re.findall(r'<li class="toctree-l1[^"]*"><a class="[^"]*" href="[^"]*">([^<]*)</a>', bar)
    assert entries[:5] == ["Installation", "Quickstart", "Tutorial", "Mixers", "Fourier optics"]
    assert len(re.findall(r'class="toctree-l1', bar)) == len(entries)


@pytest.mark.slow
def test_the_site_has_no_link_that_leads_nowhere(site: Path) -> None:
    """Also none to a place in a page that the page does not have."""
    pages = {page.resolve(): page.read_text() for page in site.rglob("*.html")}
    places = {page: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for page, text in pages.items()}
    for page, text in pages.items():
        for link, anchor in re.findall(r'(?:href|src)="([^"#?]*)(?:\?[^"#]*)?(?:#([^"]*))?"', text):
            if "://" in link or link.startswith(("data:", "mailto:")):
                continue
            there = (page.parent / html.unescape(link)).resolve() if link else page
            assert there.exists(), f"{page}: {link}"
            anchors = {anchor, urllib.parse.unquote(html.unescape(anchor))}
            assert not anchor or there not in places or anchors & places[there], f"{page}: {link}#{anchor}"


SEARCHES = {  # words that readers search for, and the pages that may come first
    "batch size": ("docs/training",),
    "learning rate": ("docs/training",),
    "resume": ("docs/training",),
    "early stopping": ("docs/training",),
    "install": ("docs/installation",),
    "custom dataset": ("docs/data",),
    "class weights": ("docs/training",),
    "export": ("docs/export",),
    "GPU": ("docs/installation", "docs/launch"),
    "seeds": ("docs/training",),
    "attention map": ("docs/attention", "docs/training"),
    "energy": ("docs/optics/costs",),
    "calibration": ("docs/optics/calibration",),
    "padding": ("docs/mixers", "docs/data"),
    "cite": ("docs/faq",),
}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_search_finds_the_right_page_first(site: Path, tmp_path: Path) -> None:
    found = browse(site, [], list(SEARCHES), tmp_path)["hits"]
    first = {words: hits[0] if hits else None for words, hits in found.items()}
    assert not {words: first[words] for words, pages in SEARCHES.items() if first[words] not in pages}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_every_page_can_be_seen(site: Path, tmp_path: Path) -> None:
    """Checks both widths and themes for errors, overflow, cut code, copy buttons, images and equations.

    Also runs axe-core if `make axe` has fetched it.
    """
    pages = sorted(
        str(page.relative_to(site))
        for room in ("docs", "notebooks", "results")
        for page in (site / room).rglob("*.html")
    )
    assert len(pages) > 100
    found = browse(site, pages, ["lambda"], tmp_path)
    assert found["pages"] == len(pages)
    assert not found["report"], "\n".join(found["report"])
    assert len(found["hits"]["lambda"]) > 3


def browse(site: Path, pages: list[str], searches: list[str], tmp_path: Path) -> dict:
    """Returns what tests/browser.html reports about pages and searches of the site."""
    served = tmp_path / "site"
    shutil.copytree(site, served)
    shutil.copy(ROOT / "tests" / "browser.html", served)
    (served / "pages.json").write_text(
        json.dumps({"pages": pages, "axe": AXE.exists(), "searches": searches})
    )
    if AXE.exists():
        shutil.copy(AXE, served)
    handler = functools.partial(Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/browser.html"
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=3000000",
            "--dump-dom",
        ]
        place = [f"--user-data-dir={tmp_path / 'profile'}"]
        words = [CHROMIUM, *options, *place, url]
        done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S)
        server.shutdown()
    [report] = re.findall(r'<pre id="report">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    return json.loads(html.unescape(report))


def opened(site: Path, name: str, tmp_path: Path, script: str) -> str:
    """The text of a page on a disk after a script has done something to it."""
    shutil.copytree(site / "_static", tmp_path / "_static")
    page = tmp_path / "docs" / f"{name}.html"
    page.parent.mkdir(parents=True)
    page.write_text((site / "docs" / f"{name}.html").read_text() + f"<script>{script}</script>")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    command = [CHROMIUM, *options, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_head_can_be_asked(site: Path, tmp_path: Path) -> None:
    """Also of a page on a disk: words are buttons, and the one that is pressed gives weights to all."""
    second = """
    const heads = [...document.querySelectorAll("#attention select")].pop();
    heads.selectedIndex = heads.length - 1;
    heads.dispatchEvent(new Event("change"));
    document.querySelectorAll(".attention-words button")[13].click();"""
    page = opened(site, "attention", tmp_path, second)
    run = json.loads((ROOT / "results" / "studies" / "explain-attention.json").read_text())
    weights = run["blocks"][-1]["weights"][-1][13]
    words = re.findall(r'<button class="" type="button" aria-pressed="(\w+)">(.*?)</button>', page)
    assert [re.sub("<[^>]*>", " ", inside).split() for _, inside in words] == [
        [token, *([str(round(100 * weight)), "%"] if weight >= 0.005 else [])]
        for token, weight in zip(run["tokens"], weights, strict=True)
    ]
    assert [i for i, (pressed, _) in enumerate(words) if pressed == "true"] == [13]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_knob_of_the_engine_can_be_turned(site: Path, tmp_path: Path) -> None:
    """Fewer bits of detectors: the page says how many, and shows fewer decibels than before."""
    turn = """
    const decibels = document.getElementById("engine-db");
    decibels.dataset.before = decibels.textContent;
    const knob = document.getElementById("engine-adc");
    knob.value = 3;
    knob.dispatchEvent(new Event("input"));"""
    page = opened(site, "engine", tmp_path, turn)
    assert re.search(r'id="engine-adc"[^>]*><output[^>]*>3 bits</output>', page)
    [shown] = re.findall(r'<output id="engine-db"[^>]*data-before="([\d.]+) dB"[^>]*>([\d.]+) dB<', page)
    before, after = map(float, shown)
    assert after < before - 3


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_copied_code_has_no_prompts_and_no_output(site: Path, tmp_path: Path) -> None:
    copy = """
    window.addEventListener("load", () => {
      const copied = [];
      document.execCommand = () => copied.push([...document.querySelectorAll("textarea")].at(-1).value);
      document.querySelectorAll("button.copybtn").forEach((button) => button.click());
      document.body.dataset.copied = JSON.stringify(copied);
    });"""
    page = opened(site, "mixers/lambda", tmp_path, copy)
    [copied] = re.findall(r'data-copied="([^"]*)"', page)
    texts = json.loads(html.unescape(copied))
    assert any("jnp" in text for text in texts)
    assert not any(line.startswith((">>>", "...", "Array")) for text in texts for line in text.splitlines())


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *args: object) -> None:
        pass
