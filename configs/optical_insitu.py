"""In-situ fine-tuning: an exactly trained FNet goes on for a few hundred steps through the noisy engine.

The device is the preset `chip_11x11` on 8 x 8 pixels, of which forward passes see all errors; backward goes
the model of the engine. Weights are those of a run on the same task with padding as zeros. On the synthetic
reviews:
`python -m fourier_attn.main --config=configs/fnet.py --workdir=runs/exact
--config.model.mixer.padding=zero --config.data.length=64 --config.model.positions=64`, then
`python -m fourier_attn.main --config=configs/optical_insitu.py:reviews --config.init_from=runs/exact`. On
IMDb, `configs/optical_insitu.py:imdb` with an exact run on 256 words (command: docs/optics/findings.md).
`--config.model.mixer.engine.laser.power_w=1.5e-7 --config.model.mixer.engine.receiver.tia_noise=0
--config.model.mixer.engine.receiver.dark_current=0` is thirty photons a pixel, with their shot noise alone.

What it reaches: on IMDb the table of docs/optics/findings.md, results/studies/robustness-imdb.json; on the
synthetic reviews results/studies/drift-reviews.json and results/studies/photons-reviews.json.
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
