"""Tables of engines in the units that the field reports, and of published figures next to them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evidence.pages.markdown import NOT_RUN, Results, notes, significant, table
from evidence.pages.projected import spread
from fourier_attn.optics import budget, cost, preset
from fourier_attn.optics.components import CORNERS, prices
from fourier_attn.optics.constants import photon_j
from fourier_attn.studies.engine.budget import UNITS

Engines = Mapping[str, dict[str, Any]]
Values = dict[str, float]
PRODUCTS = 4  # real products of a complex one


class Published(NamedTuple):
    """Holds a published figure and the number of this project that it is compared with.

    Args:
      quantity: in words, with its unit.
      value: the published figure.
      source: where it was read.
      ours: rows of the study's file by engine -> our number at each corner, or {} where there is none.
      reason: why the figure is outside our range; "" if it is inside.
    """

    quantity: str
    value: float
    source: str
    ours: Callable[[Engines], Values]
    reason: str = ""

    def inside(self, engines: Engines) -> bool:
        """Says whether the published figure is in our range, or within 5 % of it."""
        ours = self.ours(engines).values()
        return bool(ours) and 0.95 * min(ours) <= self.value <= 1.05 * max(ours)


def unit(engine: str, name: str, factor: float = 1.0) -> Callable[[Engines], Values]:
    """Returns a function that finds a unit of an engine at each corner.

    Args:
      engine: name of the engine.
      name: key of `UNITS`.
      factor: on the number.
    """
    return lambda engines: {corner: factor * engines[engine][corner][name] for corner in CORNERS}


def conversion_pj(bits: int) -> Callable[[Engines], Values]:
    """Returns a function that computes the energy of a reading conversion at each corner, pJ.

    Args:
      bits: of the converter.
    """
    return lambda _: {corner: 1e12 * cost.conversion_j("adc", bits, prices(corner)) for corner in CORNERS}


def nothing(_: Engines) -> Values:
    """Returns no number, for a figure that this project has no counterpart of."""
    return {}


def scaling(_: Engines) -> Values:
    """Returns photons per MAC of 32 x 32 pixels over those of 16 x 16, at the same signal over shot noise."""
    small, large = (budget(preset("shot_limited").replace(shape=(n, n))) for n in (16, 32))
    return dict.fromkeys(CORNERS, large.signal_photons / small.signal_photons)


def green_photons(_: Engines) -> Values:
    """Returns the energy of 0.66 photons in aJ, from 510 to 540 nm, the green part of the spectrum."""
    low, typical, high = (0.66e18 * photon_j(wavelength) for wavelength in (540e-9, 525e-9, 510e-9))
    return {"low": low, "typical": typical, "high": high}


WANG = "Wang et al. 2022, doi:10.1038/s41467-021-27774-8"
ANDERSON = "Anderson et al. 2023, arXiv:2302.10360"
HAMERLY = "Hamerly et al. 2019, arXiv:1812.07614"
YANG = "Yang et al. 2025, Advanced Photonics, abstract"
TEMPO = "Zhang et al. 2024, arXiv:2402.07393, abstract"
RESIDUE = "doi:10.1145/3550273 (2022), abstract"
MISCUGLIO = "Miscuglio et al. 2020, doi:10.1364/OPTICA.408659, abstract"
PHOTOFOURIER = "Li et al. 2022, arXiv:2211.05276, abstract"
SURVEY = "Murmann, ADC Performance Survey, github.com/bmurmann/ADC-survey"
LIGHTMATTER = "Lightmatter, Nature 2025, from a secondary page"

PUBLISHED: Sequence[Published] = (
    Published("optical energy of 0.66 detected photons, aJ", 0.25, WANG, green_photons),
    Published(
        "detected photons per real product, MNIST at 99 %; here `chip_11x11`",
        3.1,
        WANG,
        unit("chip_11x11", "photons_per_product"),
        "The chip's light must exceed the noise of its amplifiers, and its sums have only 121 products.",
    ),
    Published(
        "detected photons per real product, MNIST at 90 %; here `shot_limited`",
        0.66,
        WANG,
        unit("shot_limited", "photons_per_product"),
    ),
    Published(
        "photons per MAC where sums become four times as long, a ratio",
        0.25,
        f"{ANDERSON}: 1 / d",
        scaling,
    ),
    Published(
        "least optical energy per real product, zJ; here `shot_limited`",
        50,
        HAMERLY,
        unit("shot_limited", "signal_j", 1e21 / PRODUCTS),
        "The figure is the lower bound of a network's tolerance. This preset is above it.",
    ),
    Published(
        "TOPS/W of a projected joint transform correlator; here `joint_transform` without link and memory",
        305,
        YANG,
        unit("joint_transform", "processor_tops_per_w"),
        "It uses several wavelengths at once. This preset has one, and detectors that integrate for longer. "
        "The article's definition of an operation was not read.",
    ),
    Published(
        "TOPS/mm^2 of the same; here `joint_transform` without link",
        40.2,
        YANG,
        unit("joint_transform", "tops_per_mm2"),
        "The same reasons hold. Each of this preset's pixels has its own converters, which take most area.",
    ),
    Published(
        "energy-delay product of other photonic accelerators over that of joint transform correlators",
        28,
        PHOTOFOURIER,
        nothing,
        "The figure depends on the other accelerators, which this project does not model.",
    ),
    Published(
        "latency of a 4f correlator with 1000 x 1000 mirrors, us; here the period of `amplitude_4f`",
        100,
        MISCUGLIO,
        unit("amplitude_4f", "period_s", 1e6),
    ),
    Published(
        "TOPS of the same, peta-operations per second; here `amplitude_4f` with link",
        1000,
        MISCUGLIO,
        unit("amplitude_4f", "sustained_tops"),
        "The article counts convolutions. The budget counts the dense transform of all mirrors.",
    ),
    Published(
        "TOPS/W of a projected photonic tensor core of 6 bits; here `chip_11x11` without link and memory",
        22.3,
        TEMPO,
        unit("chip_11x11", "processor_tops_per_w"),
    ),
    Published(
        "TOPS/mm^2 of the same; here `chip_11x11` without link",
        1.2,
        TEMPO,
        unit("chip_11x11", "tops_per_mm2"),
    ),
    Published(
        "TOPS/mm^2 of a projected optoelectronic chip with residue numbers; here `chip_11x11` without link",
        0.39,
        RESIDUE,
        unit("chip_11x11", "tops_per_mm2"),
    ),
    Published(
        "TOPS/W of a whole processor, 65.5 TOPS at 79.6 W; here `chip_11x11`, all, with light always on",
        0.823,
        LIGHTMATTER,
        unit("chip_11x11", "always_on_tops_per_w"),
    ),
    Published(
        "electrical fJ per real product of a digital processor; here `chip_11x11` with link and memory",
        300,
        ANDERSON,
        unit("chip_11x11", "electrical_j", 1e15 / PRODUCTS),
    ),
    Published(
        "pJ of a conversion with 7 to 8 effective bits from 1 GS/s; median of 18 since 2015 (1.1 to 72)",
        6.47,
        SURVEY,
        conversion_pj(8),
    ),
    Published(
        "pJ of a conversion with 3.5 to 4.5 effective bits from 1 GS/s; least of 11",
        1.26,
        SURVEY,
        conversion_pj(4),
        "The cost model halves the energy with each bit less. Part of a real converter's energy is constant.",
    ),
)


def units(results: Results, name: str) -> str:
    """Tabulates the units of the field, a column for each engine, typical (low to high).

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.budget`.
    """
    return _tabulate(results, name, _units)


def published(results: Results, name: str) -> str:
    """Tabulates published figures next to our numbers, and the reason for each difference.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.budget`.
    """
    return _tabulate(results, name, _published)


def link(results: Results, name: str, engine: str) -> str:
    """Tabulates the link budget of an engine at typical components.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.budget`.
      engine: name of the engine.
    """
    return _tabulate(results, name, lambda engines: _link(engines[engine]["typical"]))


def stages(results: Results, name: str, engine: str) -> str:
    """Tabulates the stages of a frame on an engine at typical components.

    Args:
      results: the files of results.
      name: of the file of `fourier_attn.studies.engine.budget`.
      engine: name of the engine.
    """
    return _tabulate(results, name, lambda engines: _stages(engines[engine]["typical"]))


def _tabulate(results: Results, name: str, rows: Callable[[Engines], list[list[str]]]) -> str:
    """Returns the table of rows, the first of which is the head, or that the study was not yet run."""
    documents = results.runs(name)
    if not documents:
        return table(["engine"], [[NOT_RUN]])
    engines = {row["engine"]: row for row in documents[name]["rows"] if row["part"] == "engine"}
    head, *lines = rows(engines)
    return table(head, lines) + notes(documents)


def _units(engines: Engines) -> list[list[str]]:
    typical = [row["typical"] for row in engines.values()]
    lines = [
        ["unit", *engines],
        ["complex MACs of a frame", *(f"{at['macs']:,.0f}" for at in typical)],
        ["real operations of a MAC", *(str(at["operations_per_mac"]) for at in typical)],
        ["FFT, % of the operations", *(significant(100 * at["fft_share"]) for at in typical)],
        ["electrons per pixel and pass, signal", *(significant(at["signal_e"]) for at in typical)],
        ["electrons per pixel and pass, reference", *(significant(at["reference_e"]) for at in typical)],
        ["signal over noise, dB", *(f"{at['snr_db']['all']:.1f}" for at in typical)],
    ]
    for key, (factor, words) in UNITS.items():
        lines.append([words, *(_spread(row, key, factor) for row in engines.values())])
    areas = [{corner: row[corner]["area_m2"]["total"] for corner in CORNERS} for row in engines.values()]
    return [
        *lines,
        ["area, mm^2", *(spread(area, 1e6) for area in areas)],
        ["latency of a frame, us", *(_spread(row, "latency_s", 1e6) for row in engines.values())],
        ["period of overlapping frames, us", *(_spread(row, "period_s", 1e6) for row in engines.values())],
        ["part that bounds the rate", *(at["bound"] for at in typical)],
    ]


def _published(engines: Engines) -> list[list[str]]:
    lines = [["quantity", "published", "here", "verdict", "source"]]
    for one in PUBLISHED:
        verdict = "in our range" if one.inside(engines) else one.reason
        ours = one.ours(engines)
        here = spread(ours) if ours else "none"
        lines.append([one.quantity, f"{one.value:g}", here, verdict, one.source])
    return lines


def _link(at: dict[str, Any]) -> list[list[str]]:
    head = ["part", "gain, dB", "mean power after it, dBm"]
    return [head, *([part, f"{gain:.1f}", f"{dbm:.1f}"] for part, gain, dbm in at["link"])]


def _stages(at: dict[str, Any]) -> list[list[str]]:
    lines = [["stage", "part that it uses", "time, ns", "keeps the part, ns"]]
    for stage in at["stages"]:
        times = (significant(1e9 * stage[key]) for key in ("seconds", "busy_s"))
        lines.append([stage["name"], stage["part"] or "none", *times])
    return lines


def _spread(row: dict[str, Any], key: str, factor: float) -> str:
    values = {corner: row[corner][key] for corner in CORNERS}
    return "no converters" if any(value is None for value in values.values()) else spread(values, factor)
