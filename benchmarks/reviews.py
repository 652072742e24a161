"""Every configuration on the synthetic reviews, test accuracy and time: `python -m benchmarks.reviews`.

Every one must reach 95 %, except `identity`, which must not.
"""

import importlib
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import report
from fourier_attn import train
from fourier_attn.data.sources import reviews


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        reviews.builder(folder).download_and_prepare()
        for path in sorted((Path(__file__).parent.parent / "configs").glob("*.py")):
            config = importlib.import_module(f"configs.{path.stem}").get_config("reviews")
            config.data.dir = folder
            begin = time.perf_counter()
            result = train.run(config, Path(folder) / "runs" / path.stem)
            row = {"config": f"configs/{path.name}", "test_accuracy": round(100 * result["accuracy"], 2)}
            rows.append(row | {"seconds": round(time.perf_counter() - begin)})
    report("reviews", rows)
    wrong = [r for r in rows if (r["test_accuracy"] >= 95) == (r["config"] == "configs/identity.py")]
    if wrong:
        sys.exit(f"mixing must reach 95 %, identity must not: {wrong}")


if __name__ == "__main__":
    main()
