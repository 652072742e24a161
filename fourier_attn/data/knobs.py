"""Declares the options of the data."""

from typing import Protocol, runtime_checkable

from fourier_attn.knobs import (
    Part,
    at_least,
    at_most,
    knob,
    knobs_of,
    one_of,
    positive,
    rate,
    rising,
    share,
    texts,
)


@runtime_checkable
class DataConfig(Part, Protocol):
    """Declares the options of the data: task, source, tokenizer and batches."""

    task: str = knob("reviews", "the task: a key of TASKS, or a registered task")
    dir: str = knob("", "directory of TFDS's data sets; \"\": TFDS's default")
    tokenizer: str = knob(
        "words",
        '"words", "whitespace", "unigram" or "bpe", fitted on lower-cased training texts; "bytes"; or a file',
    )
    vocab: int = knob(50_000, "largest vocabulary: the most frequent words or pieces of words", at_least(1))
    fit_examples: int = knob(
        0,
        "number of texts that a tokenizer is fitted on; 0: the whole training set",
        at_least(0, "all of train"),
    )
    length: int = knob(512, "largest number of tokens; longer texts are cut at the end", at_least(4))
    buckets: tuple[int, ...] = knob(
        (128, 192, 256, 384), "padded lengths below `length`; (): pad all texts to `length`", rising
    )
    batch: int = knob(32, "batch size, in examples", at_least(1))
    holdout: float = knob(
        0.2, "share of the training set that becomes the validation set if a data set has none", share
    )
    split_seed: int = knob(
        0, "seed of this split, separate from `seed` so that runs can share a split", at_least(0)
    )
    train_examples: int = knob(
        0,
        "use only the first N examples of the shuffled training set, or N windows of `corpora`; 0: all",
        at_least(0, "all"),
    )
    eval_examples: int = knob(
        0, "use only the first N examples of each validation split; 0: all", at_least(0, "all")
    )
    test_examples: int = knob(
        0, "use only the first N examples of each test split; 0: all", at_least(0, "all")
    )
    flip: bool = knob(
        False, "augmentation: whether to mirror training images left to right with probability 1/2"
    )
    crop: int = knob(
        0,
        "augmentation: pixels of black padding around training images, before a random crop",
        at_least(0, "none"),
    )
    mix: str = knob(
        "",
        'augmentation that mixes two training images and their labels: "mixup" (weighted mean), "cutmix" '
        '(a rectangle of one image in the other), or "" for none',
        one_of("", "mixup", "cutmix"),
    )
    corpora: tuple[str, ...] = knob(
        (),
        'texts of the tasks "lm", "mlm" and "pretraining": TFDS names (name or name:split), or text files',
        texts,
    )
    exclude: tuple[str, ...] = knob((), "texts to remove from `corpora`, as name:split or files", texts)
    train: str = knob(
        "",
        "custom dataset: a table (.csv, .tsv, .jsonl, also compressed), a folder of images by class, or a "
        "TFDS split",
    )
    validation: str = knob("", 'the same for the validation set; "": a share `holdout` of train')
    test: str = knob("", 'the same for the test set; "": a share `holdout` of train')
    text: str = knob("", 'column, or TFDS feature, of the text; "": detected by name')
    text_pair: str = knob("", 'column of the second text; "": detected by name, if there is one')
    label: str = knob("", 'column of the label; "": detected by name')
    labels: tuple[str, ...] = knob(
        (), "names of the classes in the order of their indices; (): those of train, saved by the run", texts
    )
    multi_label: bool = knob(
        False,
        'whether examples of the task `files` can have several classes, separated by ";" or "|"',
    )
    dataset: str = knob("", "name of a TFDS data set, for the task `tfds`")
    image_size: int = knob(
        32, "images of the task `image_files` are scaled to this size of a side, in pixels", at_least(4)
    )
    stride: int = knob(
        128, "tokens from one window of a long context to the next, for the task `squad`", at_least(1)
    )
    answer_tokens: int = knob(30, "largest number of tokens of an answer, for the task `squad`", at_least(1))
    unanswerable: bool = knob(
        False,
        "whether questions of the task `squad` may have no answer in their context; a run sets it",
    )
    mask_rate: float = knob(0.15, "share of tokens that a masked language model predicts", share)
    masked: bool = knob(
        False, "train a masked language model on the inputs of the task instead of the task itself"
    )

    pairs: int = knob(4, "number of pairs of a key and a value, for the recall tasks", at_least(1))
    power: float = knob(
        0.01,
        "exponent a in the probability $x^(a - 1)$ of a query's gap, for the recall tasks; small: short gaps",
        at_most(100.0, positive),
    )
    longest: int = knob(
        3, "largest number of tokens of a key and of a value, for the task `fuzzy_recall`", at_least(1)
    )
    noise: float = knob(0.2, "share of noise tokens in a sequence, for the task `noisy_recall`", rate)
    copied: int = knob(16, "number of tokens to copy, for the task `selective_copy`", at_least(1))
    causal: bool = knob(False, "whether each answer is the next token of the input, for causal mixers only")


KNOBS = knobs_of(DataConfig)
# Options of the task `squad` alone.
SPAN_KNOBS = ("stride", "answer_tokens", "unanswerable")
# Options of custom datasets.
OWN_KNOBS = ("train", "validation", "test", "text", "text_pair", "label", "labels", "multi_label", "dataset")
