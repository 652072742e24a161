"""Counts the FLOPs of training steps of recall: python -m evidence.suite.flops --out=FILE.json

The counts are those of XLA's compiler for a CPU, which counts the body of a loop once. Attention computes its
scores in a loop, so its count is too low. The counts decide how many epochs the networks of tier
`recall_equal` train.
"""

import sys

from absl import flags
from tqdm import tqdm

from evidence.suite import skills
from evidence.suite.cells import Cell
from fourier_attn import command, paths, provenance
from fourier_attn.train.target.devices import parse
from fourier_attn.train.target.report import compile_for


def define_flags() -> None:
    flags.DEFINE_string("out", None, "file of the counts, which must not exist", required=True)


def main() -> None:
    """Counts the FLOPs of each network."""
    out = paths.given(flags.FLAGS.out)
    if out.exists():
        raise ValueError(f"out={out} exists; choose another name, or move the file away")
    target = parse("cpu:1")
    rows = []
    for network in tqdm(skills.NETWORKS, unit="network"):
        config = Cell("", "", f"configs/skills.py:{network}-recall", 0, 0, 0.0).read()
        facts = compile_for(config, target)["facts"]
        row = {"network": network, "parameters": int(facts["parameters"])}
        rows.append(row | {"flops": facts["estimated flops"]})
    provenance.write(out, provenance.record() | {"rows": rows})
    print(f"written to {out}")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
