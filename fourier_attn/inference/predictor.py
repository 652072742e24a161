"""Loads a trained network and predicts answers for texts and images."""

import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fourier_attn import data, hub, paths
from fourier_attn.choices import check_choice
from fourier_attn.config import Config
from fourier_attn.data.batches import Batches
from fourier_attn.data.image_reading import read_image
from fourier_attn.data.images import ImageBatches
from fourier_attn.data.spans import SpanBatches
from fourier_attn.data.text import (
    check_known,
    encode_questions,
    encode_windows,
    encode_with_cut,
    load_tokenizer,
    special,
    tokenizer_file,
    unknown_share,
)
from fourier_attn.inference import masked_tokens, span_answers, tagging
from fourier_attn.inference.generate import Generator, Sampling
from fourier_attn.model import Model, build, grid
from fourier_attn.pretrained import folder
from fourier_attn.train.evaluate import evaluate_split, over_networks
from fourier_attn.train.init_from import is_run, restore
from fourier_attn.train.label_scores import THRESHOLD
from fourier_attn.train.losses import OBJECTIVES
from fourier_attn.train.rundir import config_file
from fourier_attn.train.step import make_eval_step, make_forward

LONG = ("cut", "windows")  # ways to read a text that is longer than data.length
WINDOWED = ("classes", "labels", "score")  # heads whose answers to several windows can be averaged
Answer = dict[str, Any]


class Predictor:
    """Predicts answers for texts, pairs of texts or images with a trained network.

        predictor = Predictor.load("runs/fnet-imdb")
        predictor(["a fine film", "a dull one"])[0]["label"]

    Each answer is a dict. Its keys depend on the task:

        classes               label, probability, probabilities (of all classes)
        several labels        labels (of probability 0.5 or more), probabilities
        numbers               score
        patches of images     patches: for each row of patches a list with the classes of each patch
        words                 words, and entities if tags mark them; see `tagging.answers`
        answers in contexts   text, start, end, probability; see `span_answers.answers`
        masked tokens         masks: the five likeliest tokens for each [MASK]
        next tokens           text, tokens, log_probability; see `generate`

    Answers to texts also have `unknown`, the share of tokens that the tokenizer does not know, and `cut`, the
    share of tokens that were not read because the text is longer than `data.length`.

    With long="windows" the whole text is read in windows of `data.length` tokens that overlap by half. The
    answer is the mean of the windows' probabilities or scores, and `windows` is their number.

    For a run with several seeds, probabilities are means over the networks. Each padded length is compiled
    once.

    Args:
      config: configuration of the run.
      network: the model that `fourier_attn.model.build` makes of `config.model`.
      params: its weights; with several seeds, their arrays have a leading axis of seeds.
      tokenizer: the run's tokenizer; None for images.
      batch: number of rows per forward pass; 0: the batch size of training. 1 is fastest for single texts.
      long: how to read texts longer than `data.length`: "cut" reads the beginning, "windows" all of it.
      sampling: options of `generate`, used when a next-token model is called.
    Raises: ValueError for parts that do not belong together, and for a task that takes no other inputs.
    """

    def __init__(
        self,
        config: Config,
        network: Model,
        params: Any,
        tokenizer: Any = None,
        batch: int = 0,
        long: str = "cut",
        sampling: Mapping[str, Any] = MappingProxyType({}),
    ):
        _check_parts(config, tokenizer)
        check_choice("long", long, LONG)
        if data.task_of(config.data).skill:
            raise ValueError(
                f"data.task={config.data.task!r} generates its own sequences and takes no other input; use "
                "--mode=eval"
            )
        self.config, self.network, self.params, self.tokenizer = config, network, params, tokenizer
        self.task, self.batch = data.task_of(config.data), batch or config.data.batch
        self.long, self.sampling = long, Sampling(**sampling)
        if sampling:
            self._check_continues()
            self.sampling.check()
        if long == "windows" and (
            self.task.head not in WINDOWED or len(self.task.texts) > 1 or self.task.images
        ):
            raise ValueError(
                f"long='windows' works only for tasks that classify or score single texts, not for "
                f"{config.data.task!r}; use long='cut'"
            )
        self.eval_step = make_eval_step(network, OBJECTIVES[self.task.head], config.train.seeds)
        self.forward = make_forward(network)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        batch: int = 0,
        allow_code: bool = False,
        devices: Mapping[str, str] = MappingProxyType({}),
        long: str = "cut",
        sampling: Mapping[str, Any] = MappingProxyType({}),
    ) -> "Predictor":
        """Loads the best weights of a run, or of a folder that was exported from it.

        Args:
          directory: path of the run or the exported folder, or a folder on the Hugging Face hub,
            "hf:owner/name" or "hf:owner/name@REVISION".
          batch, long, sampling: see `Predictor`.
          allow_code: whether to import the files that registered the run's custom mixer or task.
          devices: files of measured devices that replace those of the training, by option.
        Raises: ValueError for a directory that cannot be used.
        """
        directory = hub.local(directory).resolve()
        if allow_code:
            config_file.allow_code(directory)
        exports = [directory / name for name in (*hub.WEIGHTS, "manifest.json")]
        if not is_run(directory) and any(path.exists() for path in exports):
            config, params, file = folder.load(directory)
            network = build(config.model)
        else:
            (config, network, params), file = restore(directory, devices), tokenizer_file(directory)
        tokenizer = load_tokenizer(file) if data.task_of(config.data).fitted else None
        return cls(config, network, jax.device_put(params), tokenizer, batch, long, sampling)

    def __call__(self, inputs: Any, text_pairs: Any = None) -> list[Answer]:
        """Returns the answer to each input, in the same order.

        Args:
          inputs: texts (for tagging also lists of words), or images as files or as uint8 arrays
            (rows, cols, channels) of the network's size. Any iterable works, for example a list, a column of
            a data frame, or a generator.
          text_pairs: the second text of each pair, or the question about each image; default None.
        Raises: ValueError for empty texts, unusable images, and inputs that do not fit the task.
        """
        inputs = as_list("inputs", inputs, axes=4 if self.task.images else 1)
        text_pairs = None if text_pairs is None else as_list("text_pairs", text_pairs)
        if not inputs:
            return []
        if self.task.head == "lm":
            self._check_texts(inputs, text_pairs)
            return self.generate(inputs, *self.sampling)
        if self.task.images:
            return self._classify(self.image_batches(inputs, text_pairs))
        if self.task.tagged:
            return self._tag(inputs, text_pairs)
        if self.task.head == "spans":
            self._check_texts(inputs, text_pairs)
            return self._find(list(zip(inputs, text_pairs or (), strict=True)))
        if self.long == "windows":
            return self._read_windows(inputs)
        batches, cut = self._encoded(inputs, text_pairs)
        if self.task.fills_masks:
            answers = masked_tokens.answers(self.tokenizer, batches, self._mlm)
        else:
            answers = self._classify(batches)
        for answer, row, share in zip(answers, batches.rows, cut.tolist(), strict=True):
            answer["unknown"] = unknown_share(row, special(self.tokenizer))
            answer["cut"] = round(share, 4)
        return answers

    def generate(
        self, texts: Any, tokens: int = 50, temperature: float = 1.0, top_k: int = 0, seed: int = 0
    ) -> list[Answer]:
        """Continues each text with a next-token model.

            predictor.generate(["The film was"], tokens=20, temperature=0.8, top_k=40)[0]["text"]

        Each answer is a dict with `text`, the continuation; `tokens`, its tokens; `log_probability`, the sum
        of their log-probabilities before temperature and top_k; and `unknown`, the share of the prompt's
        tokens that the tokenizer does not know.

        A continuation depends only on its prompt and the seed, not on the other texts. A longer continuation
        begins with the shorter one. Special tokens are never sampled. Each pair of a padded prompt length (a
        power of two) and `tokens` is compiled once.

        Args:
          texts: any iterable of prompts.
          tokens: number of tokens to generate, default 50; no token ends a text earlier.
          temperature: tokens are sampled with probabilities proportional to $p^(1 / temperature)$, default 1;
            0: always the likeliest token.
          top_k: sample among the k likeliest tokens; default 0: among all.
          seed: random seed, default 0.
        Raises: ValueError for a run that is not a next-token model, a text that exceeds the network's
          positions together with the new tokens, and options out of range.
        """
        self._check_continues()
        texts = as_list("texts", texts)
        for text in texts:
            check_text("text", text)
        return self.generator(texts, Sampling(tokens, temperature, top_k, seed))

    def _check_continues(self) -> None:
        if self.config.model.head != "lm":
            raise ValueError(
                f"data.task={self.config.data.task!r} cannot continue texts; use a run of a next-token model "
                "(--config=lm:attention-wikitext2)"
            )

    @functools.cached_property
    def generator(self) -> Generator:
        """Returns the object that continues texts with this network, made at its first use."""
        sizes = {"positions": self.config.model.positions, "batch": self.batch}
        return Generator(self.network, self.params, self.tokenizer, **sizes, seeds=self.config.train.seeds)

    def _find(self, texts: Sequence[tuple[str, str]]) -> list[Answer]:
        """Returns the answer to each question about its context, see `span_answers.answers`."""

        def evaluate(batches: SpanBatches) -> np.ndarray:
            return evaluate_split(self.eval_step, self.params, batches)[1]

        return span_answers.answers(self.config, self.tokenizer, texts, self.batch, evaluate)

    def _tag(self, sentences: Sequence[Any], text_pairs: Sequence[Any] | None) -> list[Answer]:
        """Returns the tags of the words of each sentence, see `tagging.answers`."""
        if text_pairs is not None:
            raise ValueError(f"the task {self.config.data.task!r} takes 1 text; leave text_pair out")

        def evaluate(batches: Batches) -> np.ndarray:
            _, answers = evaluate_split(self.eval_step, self.params, batches)
            return answers.reshape(-1, *batches.labels.shape, self.config.model.classes).mean(axis=0)

        return tagging.answers(self.config, self.tokenizer, sentences, self.batch, evaluate)

    def explain(self, text: str | None = None, text_pair: str | None = None, image: Any = None) -> Any:
        """Returns attention maps and filters for one input, see `fourier_attn.inference.explain.explain`.

        >>> predictor.explain("not a dull moment").plot()  # doctest: +SKIP

        Args:
          text: the text, or the question about the image; default None.
          text_pair: the second text of a pair; default None.
          image: the image, a file or a uint8 array; default None.
        """
        from fourier_attn.inference.explain import explain  # imports Matplotlib, which takes time

        return explain(self, text, text_pair, image)

    def text_batches(self, texts: Sequence[Any], text_pairs: Sequence[Any] | None = None) -> Batches:
        """Returns texts as padded batches of tokens.

        Args:
          texts: n texts.
          text_pairs: the second text of each pair; default None.
        Raises: ValueError for texts that do not fit the task.
        """
        return self._encoded(texts, text_pairs)[0]

    def _encoded(self, texts: Sequence[Any], text_pairs: Sequence[Any] | None) -> tuple[Batches, np.ndarray]:
        """Returns texts as batches, and the share of each text that was cut (n,). Raises: ValueError."""
        if self.task.images:
            raise ValueError(f"the task {self.config.data.task!r} takes images, not texts; give images")
        self._check_texts(texts, text_pairs)
        masks = self.task.fills_masks
        if masks and special(self.tokenizer).mask is None:
            raise ValueError(
                f"data.tokenizer={self.config.data.tokenizer!r} lacks [MASK] in its vocabulary, so masked "
                "tokens cannot be predicted; use --mode=eval for the perplexity"
            )
        rows, cut = encode_with_cut(self.tokenizer, texts, self.config.data.length, text_pairs, masks=masks)
        return self._batches(rows), cut

    def _batches(self, rows: Sequence[np.ndarray]) -> Batches:
        ids, lengths = special(self.tokenizer), data.padded_lengths(self.config.data)
        shape = (len(rows), self.config.model.classes) if self.task.multi_label else len(rows)
        labels, size = np.zeros(shape, np.int32), self.batch
        return Batches(rows, labels, buckets=lengths, batch=size, pad=ids.pad, sep=ids.sep)

    def _read_windows(self, texts: Sequence[Any]) -> list[Answer]:
        """Returns the answers to whole texts, which are means over overlapping windows."""
        self._check_texts(texts, None)
        rows, counts = encode_windows(self.tokenizer, texts, self.config.data.length)
        starts = np.cumsum(counts) - counts
        answers = self._classify(self._batches(rows), starts)
        for answer, start, count in zip(answers, starts, counts.tolist(), strict=True):
            tokens = np.concatenate(rows[start : start + count])
            answer |= {
                "unknown": unknown_share(tokens, special(self.tokenizer)),
                "cut": 0.0,
                "windows": count,
            }
        return answers

    def _check_texts(self, texts: Sequence[Any], text_pairs: Sequence[Any] | None) -> None:
        if text_pairs is not None and len(text_pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(text_pairs)} text_pairs; give equally many")
        if (text_pairs is not None) != (len(self.task.texts) == 2) and self.task.head != "pretraining":
            raise ValueError(
                f"the task {self.config.data.task!r} takes {len(self.task.texts)} text(s); "
                + ("give text and text_pair" if len(self.task.texts) == 2 else "leave text_pair out")
            )
        for name, values in (("text", texts), ("text_pair", text_pairs or ())):
            for value in values:
                check_text(name, value)

    def image_batches(self, images: Sequence[Any], questions: Sequence[str] | None = None) -> ImageBatches:
        """Returns images as batches.

        Args:
          images: n files, or uint8 arrays (rows, cols, channels).
          questions: the question about each image, for tasks with questions; default None.
        Raises: ValueError for images or questions that do not fit the task.
        """
        task = self.config.data.task
        if self.config.model.inputs != "patches":
            raise ValueError(f"the task {task!r} does not read patches of images; use a run on images")
        if (questions is not None) != bool(self.task.question):
            cure = (
                "needs a question; give --text" if self.task.question else "takes no text; leave --text out"
            )
            raise ValueError(f"text={questions and questions[0]!r}: the task {task!r} {cure}")
        if questions is not None and len(questions) != len(images):
            raise ValueError(f"{len(images)} images and {len(questions)} questions; give equally many")
        asked = None if questions is None else self.questions(questions)
        arrays = np.stack([self.image(image) for image in images])
        places = np.prod(grid(self.config.model)) if self.task.head == "tokens" else ()
        labels = np.zeros((len(arrays), *np.atleast_1d(places).astype(int)), np.int32)
        return ImageBatches(arrays, labels, batch=self.batch, questions=asked)

    def questions(self, texts: Sequence[Any]) -> np.ndarray:
        """Returns the token ids of questions about images, padded with -1 (n, q).

        Args:
          texts: n questions.
        Raises: ValueError for words that are not in the vocabulary.
        """
        for text in texts:
            check_text("text", text)
            check_known(self.tokenizer, text)
        return encode_questions(self.tokenizer, list(texts), self.config.data.length)

    def image(self, image: Any) -> np.ndarray:
        """Returns an image as a uint8 array (rows, cols, channels) of the network's size.

        Args:
          image: a file, which is scaled, or an array of this size.
        Raises: ValueError for a file that is not an image, and an array of another shape or type.
        """
        shape = tuple(self.config.model.image)
        if isinstance(image, Path | str):
            return read_image(paths.given(image), shape)
        if not isinstance(image, np.ndarray):
            task = self.config.data.task
            raise ValueError(f"the task {task!r} takes images; give files or arrays")
        if (image.shape, image.dtype) != (shape, np.uint8):
            raise ValueError(
                f"the image has type {image.dtype} and shape {image.shape}; give uint8 and {shape}"
            )
        return image

    def _classify(self, batches: Batches | ImageBatches, starts: np.ndarray | None = None) -> list[Answer]:
        """Returns the answer to each row, or, with `starts`, the mean answer to the rows from each start."""
        _, answers = evaluate_split(self.eval_step, self.params, batches)
        mean = over_networks(self.task, answers, batches.labels)
        if starts is not None:
            counts = np.diff(np.append(starts, len(mean)))
            mean = np.add.reduceat(mean, starts) / counts.reshape(-1, *[1] * (mean.ndim - 1))
        if not self.task.labels:
            return [{"score": score} for score in mean.tolist()]
        classes = self.config.model.classes
        if self.task.head == "tokens":
            grids = mean.reshape(-1, *grid(self.config.model), classes)
            return [{"patches": [[self._named(place) for place in row] for row in one]} for one in grids]
        return [self._named(row) for row in mean]

    def _named(self, row: np.ndarray) -> Answer:
        """Returns the answer for the probabilities (c,) of the classes."""
        best, values = int(row.argmax()), row.tolist()
        probabilities = dict(zip(self.task.labels, values, strict=True))
        if self.task.multi_label:
            likely = [name for name, value in probabilities.items() if value >= THRESHOLD]
            return {"labels": likely, "probabilities": probabilities}
        return {
            "label": self.task.labels[best],
            "probability": values[best],
            "probabilities": probabilities,
        }

    def _mlm(self, batch: Any) -> np.ndarray:
        """Returns probabilities (b, p, vocab) of the tokens at `answer_positions`, means over seeds."""
        seeds, total = self.config.train.seeds, 0.0
        for seed in range(seeds):
            one = jax.tree.map(lambda p, seed=seed: jnp.asarray(p if seeds == 1 else p[seed]), self.params)
            total += np.asarray(jax.nn.softmax(self.forward(one, batch)["mlm"])) / seeds
        return np.asarray(total)


def _check_parts(config: Config, tokenizer: Any) -> None:
    """Checks that classes and tokenizer belong to the network. Raises: ValueError."""
    labels, classes = data.task_of(config.data).labels, config.model.classes
    if labels and len(labels) != classes:
        raise ValueError(
            f"data.labels={labels!r:.80} names {len(labels)} classes, but the network has {classes}; restore "
            "the config.json of these weights"
        )
    if tokenizer is not None and tokenizer.get_vocab_size() != config.model.vocab:
        raise ValueError(
            f"the tokenizer has {tokenizer.get_vocab_size():,} tokens, but the network "
            f"{config.model.vocab:,}; restore the tokenizer of these weights"
        )


def as_list(name: str, values: Any, axes: int = 1) -> list[Any]:
    """Returns an iterable as a list.

    Args:
      name: name of the argument, for messages.
      values: the iterable.
      axes: number of axes that an array of all values may have, besides 1; default 1.
    Raises: ValueError for a single text or file, for sets and mappings, and for arrays with other axes.
    """
    if isinstance(values, str | bytes | Path):
        kind = "file" if isinstance(values, Path) else "text"
        raise ValueError(f"{name}={values!r:.40} is one {kind}; give a list of {kind}s")
    if isinstance(values, Mapping | Set) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is a {type(values).__name__}; pass a list")
    if (dimensions := getattr(values, "ndim", axes)) not in (1, axes):
        cure = "pass a single column" if axes == 1 else "pass a list, even for a single input"
        raise ValueError(f"{name} is a {type(values).__name__} with {dimensions} axes; {cure}")
    # pyarrow's arrays hold pyarrow's objects
    return getattr(values, "to_pylist", lambda: list(values))()


def check_text(name: str, value: Any) -> None:
    """Checks that the argument `name` is a text that is not blank. Raises: ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{name}={value!r:.40} is not a text; give a string")
    if not value.strip():
        raise ValueError(f"{name}={value!r} is empty; give a text")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{name}={value!r} is not UTF-8; give a text in this encoding")
