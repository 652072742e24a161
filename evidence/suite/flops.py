"""Counts the FLOPs of an example of recall in training: python -m evidence.suite.flops --out=FILE.json

The counts are those of XLA's compiler for a CPU. It counts the body of a loop once, and attention computes
the scores of each example in a step of a loop. The counts are therefore those of a batch of one example, with
an optimizer whose work does not matter. They decide how many epochs the networks of `recall_equal` train.
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
        config.data.batch = 1
        config.optim.update({"name": "sgd", "momentum": 0.0, "clip_norm": 0.0, "weight_decay": 0.0})
        facts = compile_for(config, target)["facts"]
        row = {"network": network, "parameters": int(facts["parameters"])}
        rows.append(row | {"flops": facts["estimated flops"]})
    provenance.write(out, provenance.record() | {"rows": rows})
    print(f"written to {out}")


if __name__ == "__main__":
    define_flags()
    sys.exit(command.run(main))
