"""Reads and writes folders of Hugging Face or Keras Hub: config.json, weights, tokenizer, model card."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from fourier_attn import config as configuration
from fourier_attn import data
from fourier_attn.config import Config
from fourier_attn.data.text import KERAS_HUB, SENTENCEPIECE, special, tokenizer_file
from fourier_attn.inference import classify
from fourier_attn.model import ModelConfig
from fourier_attn.pretrained import architecture, files, keras_hub, read
from fourier_attn.pretrained.rewrite import describe as theirs

OURS = "fourier_attn"  # key of the `data` part in config.json
LIBRARIES = {"huggingface": "transformers", "keras_hub": "keras-hub"}
CARD = "README.md"  # the model card, which people complete by hand
AUTO = {  # classes of Hugging Face's library by head
    "classes": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
    "spans": "AutoModelForQuestionAnswering",
}


def describe(
    to: Path, config: Config, style: str, tokenizer: Path, measured: Sequence[Mapping[str, Any]]
) -> None:
    """Writes the files next to the weights: config.json, tokenizer, README.md, and Keras Hub's task.json.

    Args:
      to: the folder.
      config: configuration of the run.
      style: style of the names of the weights.
      tokenizer: tokenizer file of the run.
      measured: lines of the run's metrics.jsonl.
    """
    task = data.task_of(config.data)
    labels = task.labels
    asset = style == "keras_hub" and task.fitted and tokenizer.suffix in SENTENCEPIECE
    if style == "keras_hub":
        described = keras_hub.describe(config.model, config.data.length if asset else 0)
    else:
        described = {"config.json": theirs(config.model) if style == "huggingface" else {"model_type": OURS}}
    facts: dict[str, Any] = described["config.json"]
    if labels:
        facts["id2label"] = {str(i): label for i, label in enumerate(labels)}
        facts["label2id"] = {label: i for i, label in enumerate(labels)}
    if config.model.head == "score":
        facts |= {"num_labels": 1, "problem_type": "regression", "id2label": {"0": "score"}}
    facts[OURS] = _without_places(config.data.to_dict())
    if asset:
        (to / KERAS_HUB).parent.mkdir(parents=True)
        shutil.copy(tokenizer, to / KERAS_HUB)
    elif task.fitted:
        facts |= _tokenizer(to, tokenizer, config)
    for name, values in described.items():
        (to / name).write_text(json.dumps(values, indent=2) + "\n")
    (to / CARD).write_text(card(config, style, measured))


def _without_places(knobs: dict[str, Any]) -> dict[str, Any]:
    """Returns the data part with names of files instead of paths, because folders are private."""
    names = {key: Path(knobs[key]).name for key in ("train", "validation", "test", "tokenizer")}
    lists = {key: [Path(each).name for each in knobs[key]] for key in ("corpora", "exclude")}
    return knobs | names | lists | {"dir": ""}


def _tokenizer(to: Path, source: Path, config: Config) -> dict[str, Any]:
    """Writes a tokenizer that adds special tokens in Hugging Face's library; returns entries for config.json.

    Args:
      to: the folder.
      source: tokenizer file of the run.
      config: configuration of the run.
    """
    if source.suffix in SENTENCEPIECE:
        shutil.copy(source, to / "spiece.model")
        return {}
    tokenizer = Tokenizer.from_file(str(source))
    ids = special(tokenizer)
    special_ids = {"cls_token": ids.cls, "sep_token": ids.sep, "mask_token": ids.mask}
    special_ids |= {"pad_token": ids.pad, "unk_token": ids.unknown}
    texts = not data.task_of(config.data).images  # questions have no frame
    if texts and ids.cls is not None and ids.sep is not None:
        tokens: Any = [("[CLS]", ids.cls), ("[SEP]", ids.sep)]
        template: Any = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=tokens
        )
        tokenizer.post_processor = template
    tokenizer.save(str(to / "tokenizer.json"))
    names = {name: tokenizer.id_to_token(i) for name, i in special_ids.items() if i is not None}
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.data.length, **names}
    (to / "tokenizer_config.json").write_text(json.dumps(facts, indent=2) + "\n")
    return {"pad_token_id": ids.pad}


def unlike_theirs(config: ModelConfig) -> str:
    """Returns why Hugging Face's library cannot load a network, with a cure if there is one."""
    reason = "transformers cannot load this folder, Predictor.load can"
    other = config.copy_and_resolve_references()
    if other.mixer.get("padding") and other.mixer.name == "fourier":
        other.mixer.padding = "tokens"
        if architecture.expressible(other, "huggingface"):
            return (
                f"{reason}: its FNet treats padding as tokens; to get a folder that both can load, train "
                "with --config.model.mixer.padding=tokens"
            )
    return f"{reason}: transformers lacks this network (docs/export.md)"


def card(config: Config, style: str, measured: Sequence[Mapping[str, Any]]) -> str:
    """Returns the model card, with architecture, training data and test metrics.

    Args:
      config: configuration of the run.
      style: style of the names of the weights.
      measured: lines of the run's metrics.jsonl.
    """
    c, task = config.model, data.task_of(config.data)
    test = next((line for line in reversed(measured) if line["split"] == "test"), {})
    names = ("examples", "loss", config.train.monitor, *task.metrics, "accuracy_without_in_train", "in_train")
    numbers = [
        f"| {name} | {test[name]:.6g} |" for name in dict.fromkeys(names) if test.get(name) is not None
    ]
    table = ["| test | value |", "|---|---|", *numbers] if numbers else ["Not measured on test data."]
    if style == "keras_hub":
        use = (
            "Loads in `keras_hub` (`FNetBackbone.from_preset`, `FNetTextClassifier.from_preset`; with a "
            "preprocessor for a SentencePiece tokenizer) and in `fourier_attn` (`Predictor.load`)."
        )
    elif style == "huggingface":
        use = (
            f"Loads in `transformers` (`{AUTO.get(c.head, AUTO['classes'])}`, `AutoTokenizer`). Padding is "
            f"mixed with the tokens, so {_padding(data.padded_lengths(config.data))}"
        )
    else:
        use = _use(config)
    lines = [
        "---",
        f"library_name: {LIBRARIES.get(style, OURS)}",
        "---",
        f"# {c.mixer.name} on {Path(data.source(config.data)).name} ({config.data.task})",
        "",
        f"{c.depth} blocks of width {c.d} with the mixer `{c.mixer.name}`; head `{c.head}`"
        + (f", classes {', '.join(task.labels)}." if task.labels else "."),
        "",
        *table,
        "",
        use,
    ]
    return "\n".join(lines) + "\n"


def _padding(lengths: tuple[int, ...]) -> str:
    """Returns the end of the sentence about padding texts in Hugging Face's library as in training."""
    known, length = ", ".join(map(str, lengths)), str(lengths[-1])
    where = f"to {length}"
    if len(lengths) > 1:
        where, length = f"to the smallest of {known} that holds the text", "THAT"
    return f'pad {where}, as in training: `padding="max_length", max_length={length}, truncation=True`.'


def _use(config: Config) -> str:
    """Returns the code with which this package predicts with the folder."""
    task = data.task_of(config.data)
    if task.images and task.inputs == "tokens":
        return '`from fourier_attn import pretrained; pretrained.load("THIS FOLDER")`'
    arguments = '["image.png"]' if task.images else '["a text"]'
    if task.fills_masks:
        arguments = '["a text with a [MASK]"]'
    if task.question:
        arguments += ', ["a question"]'
    elif len(task.texts) == 2:
        arguments += ', ["its second text"]'
    return f'`from fourier_attn import Predictor; Predictor.load("THIS FOLDER")({arguments})`'


def is_export(path: Path) -> bool:
    """Returns whether `path` is an exported folder: its config.json has the `data` part of a run."""
    try:
        return OURS in json.loads((path / "config.json").read_text())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def load(path: Path) -> tuple[Config, dict[str, Any], Path]:
    """Returns the configuration, the parameters and the tokenizer file of an exported folder.

    Raises: ValueError for any other folder, and for a file that has changed since the export.
    """
    classify.check_sums(path)
    weights = read(files.inside(path) or path)
    try:
        part = json.loads((path / "config.json").read_text())[OURS]
        whole = {"data": part, "model": weights.config.to_dict(), "train": {"seeds": 1}}
        config = configuration.from_dict(whole)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path / 'config.json'} lacks the data part of a run ({type(error).__name__}: {error}); write "
            "the folder with fourier_attn.export --format=huggingface"
        ) from error
    return config, weights.params, tokenizer_file(path)
