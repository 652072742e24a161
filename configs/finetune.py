"""Fine-tunes a pre-trained network on a task of GLUE or on IMDb, or trains it from scratch.

The argument is a task: sst2, cola, mrpc, stsb, qqp, mnli, qnli, rte, wnli, imdb or reviews. To prepare a
task, use for example `python -m fourier_attn.data.prepare --dataset=glue/sst2 --source=DIR`.

Command: `python -m fourier_attn.main --config=configs/finetune.py:sst2 --config.init_from=runs/pretrain-NAME`
starts from another run. For published weights, give `--config.init_from=model.safetensors
--config.data.tokenizer=spiece.model --config.data.length=512 --config.data.buckets="()"`. Without `init_from`
the same network, fnet-mini, is trained from scratch. Texts are cut after 128 tokens.

Expected: the tables of pre-trained networks in docs/fnet.md.
"""

from fourier_attn.config import Config
from fourier_attn.family import family


def get_config(task: str = "sst2") -> Config:
    config = family("fnet", "mini", task)
    config.data.tokenizer, config.data.vocab = "bpe", 8_000
    config.data.length, config.data.buckets = 128, (32, 64)
    config.optim.schedule, config.optim.eps = "linear", 1e-6
    config.optim.learning_rate, config.optim.warmup_steps = 3e-4, 200
    config.train.epochs = 3
    if task in ("cola", "mrpc", "stsb", "rte", "wnli"):  # a few thousand examples
        config.data.batch, config.train.epochs = 16, 5
    return config
