"""The knobs of `data` in a configuration."""

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
    """Declares the options of the data: which task, from where, in what batches."""

    task: str = knob("reviews", "what to learn: a key of TASKS")
    dir: str = knob("", 'where TFDS keeps its data sets; "": TFDS\'s own default')
    tokenizer: str = knob(
        "words",
        '"words", "whitespace", "unigram" or "bpe", lower-cased and fitted on train; "bytes"; or a file',
    )
    vocab: int = knob(50_000, "at most so many words or pieces of words, the most frequent ones", at_least(1))
    fit_examples: int = knob(
        0, "texts that a tokenizer is fitted on; 0: all of train", at_least(0, "all of train")
    )
    length: int = knob(512, "tokens; longer texts are cut at the end", at_least(4))
    buckets: tuple[int, ...] = knob(
        (128, 192, 256, 384), "padded lengths below `length`; (): all at `length`", rising
    )
    batch: int = knob(32, "examples", at_least(1))
    holdout: float = knob(0.2, "share of train kept for validation where a data set has no such split", share)
    split_seed: int = knob(0, "of that split; apart from `seed`, so that runs can share a split", at_least(0))
    train_examples: int = knob(
        0,
        "use only the first N examples of (shuffled) train, of `corpora` N windows; 0: all",
        at_least(0, "all"),
    )
    eval_examples: int = knob(
        0, "use only the first N examples of each validation split; 0: all", at_least(0, "all")
    )
    test_examples: int = knob(
        0, "use only the first N examples of each test split; 0: all", at_least(0, "all")
    )
    flip: bool = knob(False, "whether training images are mirrored, left to right, in every second draw")
    crop: int = knob(
        0,
        "pixels of black added around training images, of which a piece of the old size is cut out",
        at_least(0, "none"),
    )
    mix: str = knob(
        "",
        'how two training images and their labels are joined: "mixup" (weighted mean), "cutmix" (a piece of '
        'one in the other); "": not at all',
        one_of("", "mixup", "cutmix"),
    )
    corpora: tuple[str, ...] = knob(
        (),
        'texts of the tasks "lm", "mlm" and "pretraining": TFDS names (name or name:split), or text files',
        texts,
    )
    exclude: tuple[str, ...] = knob((), "texts to keep out of these, as name:split or files", texts)
    train: str = knob(
        "", "own data: a table (.csv, .tsv, .jsonl, also packed), a folder of images by class, a TFDS split"
    )
    validation: str = knob("", 'the same for validation; "": a share `holdout` of train')
    test: str = knob("", 'the same for the test at the end; "": a share `holdout` of train')
    text: str = knob("", 'the column, or the TFDS feature, with the text; "": found by its name')
    text_pair: str = knob("", 'that with the second text; "": found by its name, or none')
    label: str = knob("", 'that with the label; "": found by its name')
    labels: tuple[str, ...] = knob(
        (), "the classes in the order of their numbers; (): those of train, kept by the run", texts
    )
    multi_label: bool = knob(
        False, 'whether an example has any number of the classes, between ";" or "|", of the task `files`'
    )
    dataset: str = knob("", "the name of a TFDS data set, of the task `tfds`")
    image_size: int = knob(32, "pixels of a side to which images of `image_files` are scaled", at_least(4))
    stride: int = knob(128, "tokens from one window of a long context to the next, of `squad`", at_least(1))
    answer_tokens: int = knob(30, "most tokens of an answer, of `squad`", at_least(1))
    unanswerable: bool = knob(
        False,
        "whether a question of `squad` may have no answer in its context; a run sets it",
    )
    mask_rate: float = knob(0.15, "share of tokens that a masked language model has to find", share)
    masked: bool = knob(
        False, "learn to find masked tokens of the task's own inputs, and not what the task asks"
    )

    pairs: int = knob(4, "keys with a value, of the recall tasks", at_least(1))
    power: float = knob(
        0.01,
        "a in the probability of a query's gap, x^(a - 1); small: near the pairs",
        at_most(100.0, positive),
    )
    longest: int = knob(3, "most tokens of a key and of a value, of `fuzzy_recall`", at_least(1))
    noise: float = knob(0.2, "share of a sequence that is noise, of `noisy_recall`", rate)
    copied: int = knob(16, "tokens that `selective_copy` asks for", at_least(1))
    causal: bool = knob(False, "whether an answer is the next token in the input, for causal mixers only")


KNOBS = knobs_of(DataConfig)
# Options of the task `squad` alone.
SPAN_KNOBS = ("stride", "answer_tokens", "unanswerable")
# Options of custom data, which say what they are.
OWN_KNOBS = ("train", "validation", "test", "text", "text_pair", "label", "labels", "multi_label", "dataset")
