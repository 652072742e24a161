"""Makes the tables of measurements on a GPU, from the files that `benchmarks.gpu` writes."""

from collections.abc import Callable
from functools import partial

from evidence.pages.markdown import NOT_RUN, Results, Row, notes, significant, table


def gpu_errors(results: Results) -> str:
    """Tabulates the largest relative error of the gradients of each mixer in each precision."""
    rows = _rows(results, "error")
    kinds = list(dict.fromkeys(row["dtype"] for row in rows))
    found = {(row["what"], row["dtype"]): row for row in rows}
    lines = [
        [what, *(_error(found.get((what, kind))) for kind in kinds)]
        for what in dict.fromkeys(row["what"] for row in rows)
    ]
    return _whole(results, "error", ["mixer", *kinds], lines)


def gpu_times(results: Results) -> str:
    """Tabulates milliseconds, and below them millijoules per example, over the number of tokens."""
    rows = _rows(results, "time")
    lengths = sorted({row["t"] for row in rows})
    found = {(row["what"], row["dtype"], row["t"]): row for row in rows}
    lines = [
        [f"{what}, {dtype}", unit, *(_number(found.get((what, dtype, t)), name) for t in lengths)]
        for name, unit in (("ms", "ms"), ("mj_per_example", "mJ an example"))
        for what, dtype in dict.fromkeys(key[:2] for key in found)
    ]
    return _whole(results, "time", ["method", "unit", *(f"t = {t:,}" for t in lengths)], lines)


def gpu_steps(results: Results) -> str:
    """Tabulates training steps of encoders of size base."""
    names = {"ms": "ms", "tokens_per_s": "tokens/s", "predicted_mb": "predicted MB", "peak_mb": "peak MB"}
    lines = [
        [row["what"], f"{row['batch']}", f"{row['t']:,}", *(_number(row, name) for name in names)]
        for row in _rows(results, "step")
    ]
    return _whole(results, "step", ["encoder", "batch", "tokens", *names.values()], lines)


def gpu_resumed(results: Results) -> str:
    """Tabulates whether killed and resumed runs ended with the parameters of an unbroken one."""
    lines = [
        [row["what"], f"`{row['flags']}`" if row["flags"] else "none", _said(row, _bits)]
        for row in _rows(results, "resume")
    ]
    return _whole(results, "resume", ["run", "flags of XLA", "parameters"], lines)


def gpu_runs(results: Results) -> str:
    """Tabulates whole runs."""
    lines = [[row["what"], f"{row.get('epochs', '')}", _said(row, _score)] for row in _rows(results, "run")]
    return _whole(results, "run", ["configuration", "epochs", "result"], lines)


def gpu_ratio(results: Results, of: tuple[str, ...], to: tuple[str, ...], dtype: str, t: int) -> str:
    """Returns how many times as long the fastest of some methods takes as the fastest of others.

    It is "unknown" if one of these methods is not measured or failed.

    Args:
      results: the files of results.
      of, to: the methods, as `benchmarks.gpu_ops` names them.
      dtype: dtype of the tokens.
      t: number of tokens.
    """
    rows = [row for row in _rows(results, "time") if (row["dtype"], row["t"]) == (dtype, t)]
    times = {row["what"]: row["ms"] for row in rows if "ms" in row}
    if {*of, *to} - times.keys():
        return "unknown"
    return significant(min(times[what] for what in of) / min(times[what] for what in to))


def gpu_mixers(results: Results) -> str:
    """Returns the number of mixers whose gradients were compared with those of the CPU."""
    rows = [row for row in _rows(results, "error") if "why" not in row]
    return str(len({row["what"].partition(",")[0] for row in rows}))


def gpu_peak(results: Results) -> str:
    """Returns by how much the peak memory of training steps exceeds its prediction: the range, in MB."""
    rows = [row for row in _rows(results, "step") if row.get("peak_mb") and row.get("predicted_mb")]
    excess = sorted(round(row["peak_mb"] - row["predicted_mb"]) for row in rows)
    if not excess:
        return "unknown"
    return f"{excess[0]:,}" if excess[0] == excess[-1] else f"{excess[0]:,} to {excess[-1]:,}"


def gpu_encoders(results: Results) -> str:
    """Returns the number of encoders whose training steps have run."""
    return str(len({row["what"] for row in _rows(results, "step") if "why" not in row}))


def _rows(results: Results, kind: str) -> list[Row]:
    documents = results.runs(f"benchmarks/gpu-{kind}")
    return [row for document in documents.values() for row in document["rows"] if row["part"] == kind]


def _whole(results: Results, kind: str, head: list[str], lines: list[list[str]]) -> str:
    if not lines:
        return table(head[:1], [[NOT_RUN]])
    return table(head, lines) + notes(results.runs(f"benchmarks/gpu-{kind}"))


def _said(row: Row, what: Callable[[Row], str]) -> str:
    return f"failed: {row['why']}" if "why" in row else what(row)


def _number(row: Row | None, name: str) -> str:
    """Returns a number of a row; nothing where it is not measured or could not be."""
    if row is None:
        return ""
    return _said(row, lambda row: "not measured" if row[name] is None else significant(row[name]))


def _error(row: Row | None) -> str:
    if row is None:
        return ""
    return _said(row, lambda row: f"{row['error']:g}{'' if row['within'] else ' (too large)'}")


def _bits(row: Row) -> str:
    return "equal, bit for bit" if row["same_bits"] else "different"


def _score(row: Row) -> str:
    """Returns the score on the test set, or of the last validation of an unfinished run."""
    if row["finished"]:
        return f"test {row['metric']} {significant(row['test'][row['metric']])}"
    return f"unfinished, validation accuracy {significant(row['validation']['accuracy'])}"


GPU_TABLES: dict[str, Callable[[Results], str]] = {
    "gpu-errors": gpu_errors,
    "gpu-times": gpu_times,
    "gpu-steps": gpu_steps,
    "gpu-resumed": gpu_resumed,
    "gpu-runs": gpu_runs,
}
PLAIN_METHODS = ("fft", "rfft", "matmul", "monarch")  # of Fourier mixing without lengths
SHORT = {"dtype": "bfloat16", "t": 128}
GPU_VALUES: dict[str, Callable[[Results], str]] = {
    "gpu-mixers": gpu_mixers,
    "gpu-peak-over-predicted": gpu_peak,
    "gpu-encoders": gpu_encoders,
    "gpu-fourier-over-cudnn": partial(gpu_ratio, of=PLAIN_METHODS, to=("attention, cudnn",), **SHORT),
    "gpu-xla-over-fourier": partial(gpu_ratio, of=("attention",), to=PLAIN_METHODS, **SHORT),
    "gpu-xla-over-fourier-float32": partial(
        gpu_ratio, of=("attention",), to=PLAIN_METHODS, dtype="float32", t=128
    ),
    "gpu-auto-over-fastest": partial(gpu_ratio, of=("matmul",), to=PLAIN_METHODS, dtype="bfloat16", t=1024),
}
