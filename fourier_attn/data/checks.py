"""Checks the `data` part of a configuration before any data are read."""

from fourier_attn.data import skills
from fourier_attn.data.corpus import check_corpora
from fourier_attn.data.knobs import KNOBS, OWN_KNOBS, SPAN_KNOBS, DataConfig
from fourier_attn.data.tasks import OWN, TASKS, find_task
from fourier_attn.data.text import WORDS, check_kind
from fourier_attn.knobs import check as check_knobs

# Options that do not apply to a task on custom data.
NO_COLUMNS = {
    "image_files": ("text", "text_pair", "label"),
    "tags": ("text_pair",),
    "squad": ("text", "text_pair", "label", "labels"),
}
NEEDED = {
    "files": "FILE.csv",
    "tfds": "NAME",
    "image_files": "DIR",
    "tags": "FILE.conll",
    "squad": "FILE.json",
}


def check(config: DataConfig) -> None:
    """Checks the `data` part of a configuration without reading any data.

    Raises: ValueError for an option out of its range, and for options that do not fit each other.
    """
    check_task(config)
    check_kind(config.tokenizer, config.vocab)
    if config.masked:
        check_masked(config)
    if TASKS[config.task].skill:
        skills.check(config.task, skills.knobs_of(config))
    task = TASKS[config.task]
    masked, separated = task.head == "mlm", task.head == "pretraining" or len(task.texts) > 1
    if (masked or separated) and config.tokenizer in (*WORDS, "bytes"):
        raise ValueError(
            f"data.tokenizer={config.tokenizer!r} lacks {'[MASK]' if masked else '[SEP]'}, which task "
            f"{config.task!r} needs; use 'bpe'"
        )
    if task.corpora:
        check_corpora(config)
    if task.head == "pretraining" and config.length < 8:
        raise ValueError(
            f"data.length={config.length} must be at least 8 for two segments and their special tokens"
        )


def check_masked(config: DataConfig) -> None:
    """Checks that a task has inputs that can be masked. Raises: ValueError."""
    task = TASKS[config.task]
    if task.inputs != "tokens" or task.skill or task.corpora:
        cure = "use the task 'mlm'" if task.corpora else "choose a task on texts, or 'pixels'"
        raise ValueError(f"data.masked=True needs a task with tokens and labels, not {config.task!r}; {cure}")


def check_task(config: DataConfig) -> None:
    """Checks the task and the range of every option. Raises: ValueError."""
    find_task(config.task)
    check_knobs("data.", KNOBS, config)
    own = config.task in OWN
    for name in OWN_KNOBS:
        if config[name] and not own:
            raise ValueError(
                f"data.{name}={config[name]!r} is for custom datasets; choose --config=configs/NAME.py:files"
            )
    needed = "dataset" if config.task == "tfds" else "train"
    if own and not config[needed]:
        raise ValueError(f"data.task={config.task!r} needs --config.data.{needed}={NEEDED[config.task]}")
    if len(config.labels) == 1 or len(set(config.labels)) < len(config.labels):
        raise ValueError(f"data.labels={config.labels!r} must contain at least two different names")
    if config.multi_label and config.task != "files":
        raise ValueError(
            f"data.multi_label=True needs the task 'files', not {config.task!r}; leave it out, or write a "
            "table"
        )
    if config.dataset and config.task != "tfds":
        raise ValueError(f"data.dataset={config.dataset!r} needs the task 'tfds', not {config.task!r}")
    _check_effect(config)


def _check_effect(config: DataConfig) -> None:
    """Checks that the task uses all given options, and that augmentation keeps labels. Raises: ValueError."""
    task = TASKS[config.task]
    augmentations = () if task.images else ("flip", "crop", "mix")
    columns = NO_COLUMNS.get(config.task, ())
    of_texts = () if task.fitted or task.inputs == "tokens" else ("tokenizer", "vocab", "length", "buckets")
    used = (*skills.SKILLS[config.task].uses, "vocab", "length") if task.skill else ()
    others = ("tokenizer", "buckets", "holdout", "fit_examples") if task.skill else ()
    others += () if task.head == "spans" else SPAN_KNOBS
    of_texts = tuple(name for name in (*of_texts, *others, *skills.OPTIONS) if name not in used)
    usual = {name: task.defaults.get(f"data.{name}", KNOBS[name].default) for name in of_texts}
    idle = [name for name in (*augmentations, *columns) if config[name]]
    if idle := idle + [name for name in of_texts if config[name] != usual[name]]:
        raise ValueError(
            f"data.{idle[0]}={config[idle[0]]!r} has no effect for task {config.task!r}; leave it out"
        )
    placed = "tokens" in (task.head, task.inputs)  # each patch has a label, or each pixel is a token
    changed = [name for name in ("flip", "crop", "mix") if config[name] and (placed or name != "flip")]
    if changed and (placed or task.question):
        raise ValueError(
            f"data.{changed[0]}={config[changed[0]]!r} would change the correct answers of task "
            f"{config.task!r}; leave it out"
        )
