"""The component library: every number has a range, a mark and a source; files of one's own; the processor."""

import re
from pathlib import Path

import pytest
from conftest import ROOT

from fourier_attn import provenance
from fourier_attn.optics import components
from fourier_attn.optics.components import CORNERS, library, prices
from fourier_attn.optics.parts import MODULATOR_TYPES
from fourier_attn.studies.engine.cpu_power import counters, cpu_power

WHOLE = """
[link.bit_j]
what = "a bit"
unit = "J"
low = 1e-12
typical = 2e-12
high = 3e-12
marks = ["read", "recalled", "assumed"]
source = "doi:10.1000/182"
"""


def file(where: Path, text: str) -> Path:
    path = where / "own.toml"
    path.write_text(text)
    return path


def test_every_component_is_whole() -> None:
    for name, part in library().items():
        assert part.low <= part.typical <= part.high, name
        assert part.what, name
        if set(part.marks) != {"assumed"}:
            assert re.search(r"https?://\S+|doi:10\.\d+/\S+", part.source), name
        else:
            assert part.source == components.ASSUMPTION, name


def test_kinds_that_are_asked_for_are_there() -> None:
    names = set(library())
    for kind in MODULATOR_TYPES:
        assert {f"{kind}.{what}" for what in ("write_j", "hold_w_per_pi", "settle_s")} <= names
    parts = {"dac.level_j", "adc.level_j", "laser.wall_plug", "photodiode.receiver_w", "camera.pixel_j"}
    assert parts | {"link.bit_j", "sram.bit_j", "hbm.bit_j"} <= names


def test_corners_are_of_cost() -> None:
    low, typical, high = (prices(corner) for corner in CORNERS)
    assert low["link.bit_j"] < typical["link.bit_j"] < high["link.bit_j"]
    assert low["laser.wall_plug"] > typical["laser.wall_plug"] > high["laser.wall_plug"]
    assert low["setting.light"] == typical["setting.light"] == high["setting.light"] == 1


def test_a_file_of_ones_own_replaces_its_components(tmp_path: Path) -> None:
    own = library(file(tmp_path, WHOLE))
    assert own["link.bit_j"].typical == 2e-12
    assert {name for name, part in own.items() if part != library()[name]} == {"link.bit_j"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("doi:10.1000/182", " ", "link.bit_j has no source; give an address"),
        ('"doi:10.1000/182"', "5", "link.bit_j has no source; give an address"),
        ('"doi:10.1000/182"', '["doi:10.1000/182"]', "link.bit_j has no source; give an address"),
        ("doi:10.1000/182", "a book", "source='a book' is not an address"),
        ('"recalled"', '"heard"', "must be three of read, recalled, assumed"),
        ('"read", ', "", "must be three of read, recalled, assumed"),
        ("low = 1e-12", "low = 9e-12", "low, typical, high = [9e-12, 2e-12, 3e-12] must not fall"),
        ("low = 1e-12", "low = nan", "nan must be a finite number"),
        ("low = 1e-12", "low = -1.0", "-1.0 must be a finite number, at least 0"),
        ("low = 1e-12", 'low = "1"', "'1' must be a finite number"),
        ("low = 1e-12", "low = 0.0\nmore_is_better = true", "low=0 must be positive"),
        ("low = 1e-12", "low = 1e-12\nlowest = 1", "has no field lowest"),
        (
            "[link.bit_j]",
            "[link.bits]",
            "component=link.bits is unknown; did you mean link.bit_j? Choose from dac.level_j",
        ),
        ("[link.bit_j]", "[link]", "link must hold components"),
        ("[link.bit_j]", "[link", "cannot be read as TOML"),
    ],
)
def test_bad_components_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in WHOLE
    with pytest.raises(ValueError, match=re.escape(message)):
        library(file(tmp_path, WHOLE.replace(old, new)))


@pytest.mark.parametrize(
    ("text", "values", "marks"),
    [
        ("typical = 12e-12", (0.5e-12, 12e-12, 35.7e-12), ("read", "assumed", "recalled")),
        ('typical = 50e-12\nmarks = "measured"', (0.5e-12, 50e-12, 50e-12), ("read", "measured", "measured")),
        ('low = 1e-12\nhigh = 2e-11\nmarks = "measured"\nsource = "our bench, 2026"', None, None),
    ],
)
def test_single_fields_are_changed(
    tmp_path: Path, text: str, values: tuple | None, marks: tuple | None
) -> None:
    """What a file does not give stays; a measured number needs no address."""
    part = library(file(tmp_path, f"[link.bit_j]\n{text}\n"))["link.bit_j"]
    own = library()["link.bit_j"]
    if values is None:
        assert (part.low, part.typical, part.high) == (1e-12, own.typical, 2e-11)
        assert part.source == f"our bench, 2026; {own.source}"
        return
    assert (part.low, part.typical, part.high) == values
    assert part.marks == marks
    assert (part.what, part.unit, part.source) == (own.what, own.unit, own.source)


def test_a_whole_component_may_be_measured(tmp_path: Path) -> None:
    words = 'marks = ["measured", "measured", "measured"]\nsource = "our bench, 2026-05-01"\n'
    part = library(file(tmp_path, WHOLE.split("marks")[0] + words))["link.bit_j"]
    assert set(part.marks) == {"measured"}
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ValueError, match="marks='guessed' must be one of read, recalled, assumed, measured"):
        library(file(other, '[link.bit_j]\nlow = 1e-13\nmarks = "guessed"\n'))


def test_unknown_corner() -> None:
    with pytest.raises(ValueError, match="corner='mean' is unknown"):
        prices("mean")


def test_the_file_is_part_of_the_package() -> None:
    assert '"fourier_attn.optics" = ["*.toml"]' in (ROOT / "pyproject.toml").read_text()


def zone(root: Path, name: str, kind: str, joules: float) -> Path:
    (root / name).mkdir(parents=True)
    (root / name / "name").write_text(f"{kind}\n")
    (root / name / "energy_uj").write_text(f"{round(1e6 * joules)}\n")
    (root / name / "max_energy_range_uj").write_text("262143328850\n")
    return root / name / "energy_uj"


def test_watts_of_counters(tmp_path: Path) -> None:
    """Packages add up, parts of a package do not count, and a counter may go round."""
    first = zone(tmp_path, "intel-rapl:0", "package-0", 100.0)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 262143.0)
    zone(tmp_path, "intel-rapl:0:0", "core", 50.0)
    zone(tmp_path, "intel-rapl:2", "psys", 50.0)
    (tmp_path / "intel-rapl:3").mkdir()
    assert set(counters(tmp_path)) == {"intel-rapl:0", "intel-rapl:1"}

    def work() -> None:
        first.write_text("130000000\n")  # 30 J more
        second.write_text("671150\n")  # 262143.32885 J is where it wraps: 1 J more

    clock = iter([0.0, 2.0, 4.0, 6.0])
    power = cpu_power(work, 1.0, root=tmp_path, clock=lambda: next(clock))
    assert power.typical == pytest.approx(31.0 / 2.0, rel=1e-6)
    assert power.low == power.high == power.typical
    assert power.measured
    assert "RAPL" in power.text


def test_watts_without_counters(tmp_path: Path) -> None:
    power = cpu_power(lambda: pytest.fail("nothing to measure"), root=tmp_path / "nowhere")
    core = library()["cpu.core_w"]
    assert power.typical == pytest.approx(provenance.cores() * core.typical)
    assert power.low < power.typical < power.high
    assert not power.measured
    assert core.source in power.text
    assert f"{provenance.cores()} cores" in power.text
