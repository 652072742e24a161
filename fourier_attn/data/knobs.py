"""The knobs of `data` in a configuration."""

from fourier_attn.knobs import Knob, at_least, one_of, rising, share, texts

KNOBS = {
    "task": Knob("reviews", "what to learn: a key of TASKS"),
    "dir": Knob("", 'where TFDS keeps its data sets; "": TFDS\'s own default'),
    "tokenizer": Knob(
        "words",
        '"words", "whitespace", "unigram" or "bpe", lower-cased and fitted on train; "bytes"; or a file',
    ),
    "vocab": Knob(50_000, "at most so many words or pieces of words, the most frequent ones", at_least(1)),
    "fit_examples": Knob(
        0, "texts that a tokenizer is fitted on; 0: all of train", at_least(0, "all of train")
    ),
    "length": Knob(512, "tokens; longer texts are cut at the end", at_least(4)),
    "buckets": Knob((128, 192, 256, 384), "padded lengths below `length`; (): all at `length`", rising),
    "batch": Knob(32, "examples", at_least(1)),
    "holdout": Knob(0.2, "share of train kept for validation where a data set has no such split", share),
    "split_seed": Knob(0, "of that split; apart from `seed`, so that runs can share a split", at_least(0)),
    "train_examples": Knob(
        0,
        "use only the first N examples of (shuffled) train, in pre-training N windows; 0: all",
        at_least(0, "all"),
    ),
    "eval_examples": Knob(
        0, "use only the first N examples of each validation split; 0: all", at_least(0, "all")
    ),
    "test_examples": Knob(0, "use only the first N examples of each test split; 0: all", at_least(0, "all")),
    "flip": Knob(False, "whether training images are mirrored, left to right, in every second draw"),
    "crop": Knob(
        0,
        "pixels of black added around training images, of which a piece of the old size is cut out",
        at_least(0, "none"),
    ),
    "mix": Knob(
        "",
        'how two training images and their labels are joined: "mixup" (weighted mean), "cutmix" (a piece of '
        'one in the other); "": not at all',
        one_of("", "mixup", "cutmix"),
    ),
    "corpora": Knob(
        (), 'texts of the task "pretraining": TFDS names (name or name:split), or text files', texts
    ),
    "exclude": Knob((), "texts to keep out of these, as name:split or files", texts),
    "train": Knob(
        "", "own data: a table (.csv, .tsv, .jsonl, also packed), a folder of images by class, a TFDS split"
    ),
    "validation": Knob("", 'the same for validation; "": a share `holdout` of train'),
    "test": Knob("", 'the same for the test at the end; "": a share `holdout` of train'),
    "text": Knob("", 'the column, or the TFDS feature, with the text; "": found by its name'),
    "text_pair": Knob("", 'that with the second text; "": found by its name, or none'),
    "label": Knob("", 'that with the label; "": found by its name'),
    "labels": Knob(
        (), "the classes in the order of their numbers; (): those of train, kept by the run", texts
    ),
    "dataset": Knob("", "the name of a TFDS data set, of the task `tfds`"),
    "image_size": Knob(32, "pixels of a side to which images of `image_files` are scaled", at_least(4)),
    "mask_rate": Knob(0.15, "share of tokens that a masked language model has to find", share),
}
# those of custom data, which say what they are
OWN_KNOBS = ("train", "validation", "test", "text", "text_pair", "label", "labels", "dataset")
