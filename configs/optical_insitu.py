r"""Fine-tunes an exactly trained FNet for a few hundred steps on the noisy optical engine (in-situ training).

The device is the preset `chip_11x11` with 8 x 8 pixels. The forward pass has all errors, and the backward
pass uses the model of the engine. The initial weights come from a run on the same task with padding as zeros.

Commands for the synthetic reviews:

    python -m fourier_attn.main --config=configs/fnet.py --workdir=runs/exact \
        --config.model.mixer.padding=zero --config.data.length=64 --config.model.positions=64
    python -m fourier_attn.main --config=configs/optical_insitu.py:reviews --config.init_from=runs/exact

For IMDb, use `configs/optical_insitu.py:imdb` and an exact run on 256 words (docs/optics/findings.md has its
command). These options give thirty photons per pixel, with shot noise only:
`--config.model.mixer.engine.laser.power_w=1.5e-7 --config.model.mixer.engine.receiver.tia_noise=0
--config.model.mixer.engine.receiver.dark_current=0`.

Expected: the tables of docs/optics/findings.md, from results/studies/robustness-imdb.json,
results/studies/drift-reviews.json and results/studies/photons-reviews.json.
"""

from fourier_attn.config import Config, default


def get_config(task: str = "imdb") -> Config:
    config = default("fourier", task, engine="chip_11x11")
    config.model.mixer.engine.shape = (8, 8)
    config.init_padding = "zero"
    config.data.buckets = ()
    config.data.length = config.model.positions = 64 if task == "reviews" else 256
    config.data.train_examples = 9_600  # 300 steps of 32
    if task == "imdb":
        config.model.dropout = config.model.mixer_dropout = config.model.token_dropout = 0.2
    config.optim.learning_rate, config.optim.warmup_steps = 1e-4, 30
    config.train.epochs, config.train.patience = 1, 0
    return config
