"""The site: built with warnings as errors, then every page opened in a browser, where there is one."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MOST_BYTES = 30e6


@pytest.fixture(scope="module")
def site() -> Path:
    pytest.importorskip("myst_nb")
    directory = ROOT / "build" / "site"
    # notebooks are run by tests/test_notebooks.py
    command = [
        "sphinx",
        "-q",
        "-W",
        "-D",
        "nb_execution_mode=off",
        "--keep-going",
        "-b",
        "html",
        "-c",
        "docs",
        "-d",
        "build/doctrees",
    ]
    done = subprocess.run(
        [sys.executable, "-m", *command, ".", str(directory)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


@pytest.mark.slow
def test_the_site_is_small(site: Path) -> None:
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < MOST_BYTES


@pytest.mark.slow
def test_the_site_has_no_link_that_leads_nowhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text()):
            if "://" not in link and not link.startswith(("data:", "mailto:")):
                assert (page.parent / html.unescape(link)).resolve().exists(), f"{page}: {link}"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_every_page_can_be_seen(site: Path, tmp_path: Path) -> None:
    """Both widths, both themes: no error, no overflow, images, equations, contrast, and a search."""
    pages = sorted(
        str(page.relative_to(site))
        for room in ("docs", "notebooks")
        for page in (site / room).rglob("*.html")
    )
    assert len(pages) > 100
    served = tmp_path / "site"
    shutil.copytree(site, served)
    shutil.copy(ROOT / "tests" / "browser.html", served)
    (served / "pages.json").write_text(json.dumps(pages))
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
        done = subprocess.run([CHROMIUM, *options, *place, url], capture_output=True, text=True, timeout=900)
        server.shutdown()
    [report] = re.findall(r'<pre id="report">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    found = json.loads(html.unescape(report))
    assert found["pages"] == len(pages)
    assert found["report"] == []
    assert found["hits"] > 3


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *args: object) -> None:
        pass
