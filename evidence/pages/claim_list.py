"""Lists every claim of the sources with the function that judges it, and tabulates the verdicts."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, partial

from evidence.pages import claims
from evidence.pages.claims import VERDICTS, Judge, Judged, absent
from evidence.pages.markdown import Results, table
from evidence.suite.ledger import Finding

ARTICLES, FNET_ARTICLE, PAPER = "Optalysys on attention", "Optalysys on FNet", "FNet paper"
CHAPTER, LAMBDA = "chapter", "lambda paper"
SMALL = ("IMDb", "texts.md#small-networks-on-imdb")
ENGINES = ("engines", "texts.md#emulated-engines")
FINDINGS = ("comparisons", "../results/evidence/imdb/findings.md#claims-and-verdicts")
OWN = ("articles' network", "../results/evidence/imdb/findings.md#network-of-the-articles")
START = ("convergence", "../results/evidence/imdb/findings.md#speed-of-convergence")
GROWTH = ("growth", "performance.md#sequence-length")
ENCODERS = ("encoders", "performance.md#whole-encoders")
PROJECTED = ("projection", "optics/costs.md#speed-up-of-a-network")
ENERGY = ("energy", "optics/findings.md#accuracy-versus-energy")
MATRICES = ("matrices", "chapter.md#matrices-section-18")
SYMMETRIES = ("symmetries", "chapter.md#symmetries-and-cost")
IMAGES = ("images", "images.md#results")
PRETRAINING = ("pre-training", "fnet.md#results")
RECALL = ("skills", "skill_results.md#recall-in-a-larger-vocabulary")
OPEN = ("open questions", "evidence.md#open-questions")
TESTS = "tests/studies/test_chapter.py"
ATTENTION = {128: "attention", 768: "attention, d = 768, 12 heads of 64"}  # by width, in the benchmark


@dataclass(frozen=True)
class Claim:
    """Holds a claim of a source, the function that judges it, and the page that shows its result.

    Args:
      text: the claim.
      source: who makes it.
      judge: returns the verdict.
      shown: name of the page that shows the result, and its path from docs/.
    """

    text: str
    source: str
    judge: Judge
    shown: tuple[str, str]


def first_epoch(finding: Finding) -> float:
    """Returns the validation accuracy after the first epoch."""
    return finding["validation"][0]


def fifth_batch(finding: Finding) -> float:
    """Returns the accuracy on the held-out batch of CIFAR-10."""
    return finding["extra_evals"]["batch_5"]["accuracy"]


def recalled(finding: Finding) -> float:
    """Returns the test accuracy."""
    return finding["test"]["accuracy"]


def open_question(why: str, source: str, text: str) -> Claim:
    """Returns a claim that was not tested, with the reason."""
    return Claim(text, source, lambda _: absent(f"needs {why}"), OPEN)


CLAIMS = (
    Claim(
        "circular attention is at least as accurate as attention (84 against 83 %)",
        ARTICLES,
        partial(claims.compared, model="circular-1d", against="attention"),
        FINDINGS,
    ),
    Claim(
        "kernels of 16 x 8 are as accurate as 1-D kernels",
        ARTICLES,
        partial(claims.compared, model="circular-16x4", against="circular-1d"),
        FINDINGS,
    ),
    Claim(
        "kernels of 11 x 11 are as accurate as 1-D kernels",
        ARTICLES,
        partial(claims.compared, model="circular-8x8", against="circular-1d"),
        FINDINGS,
    ),
    Claim(
        "2-D kernels are slightly better than attention",
        ARTICLES,
        partial(claims.differing, model="circular-16x4", against=("attention",)),
        SMALL,
    ),
    Claim(
        "3 x 3 kernels on the engine are as accurate as without it",
        ARTICLES,
        partial(claims.compared, model="circular-3x3-engine", against="circular-3x3-exact"),
        FINDINGS,
    ),
    open_question(
        "a training of the whole network through the engine",
        ARTICLES,
        "3 x 3 kernels on the engine reach a bit more than 84 %",
    ),
    Claim(
        "3 x 3 kernels start more slowly than larger ones",
        ARTICLES,
        lambda results: claims.by_seeds(
            results, "1", "circular-1d", "circular-3x3", first_epoch, "after one epoch, 1-D - 3 x 3"
        ),
        START,
    ),
    Claim(
        "circular attention has fewer parameters than attention",
        ARTICLES,
        partial(claims.fewer, tier="2", model="circular-1d", against="attention"),
        OWN,
    ),
    open_question("a GPU", ARTICLES, "convolutions take about 40 % of the training time"),
    Claim(
        "attention needs memory that grows with the square of the number of tokens",
        ARTICLES,
        partial(
            claims.growing,
            mixers=ATTENTION,
            of="temporary_mb",
            exponent=2.0,
            said="memory of attention that does not store all scores,",
        ),
        GROWTH,
    ),
    Claim(
        "lambda layers need memory that grows linearly",
        ARTICLES,
        partial(
            claims.growing, mixers={128: "lambda, context 3"}, of="temporary_mb", exponent=1.0, said="memory"
        ),
        GROWTH,
    ),
    Claim(
        "lambda layers are as accurate as attention after the same number of epochs",
        ARTICLES,
        partial(claims.compared, model="lambda", against="attention"),
        FINDINGS,
    ),
    Claim(
        "lambda layers on the engine are as accurate as without it",
        ARTICLES,
        partial(claims.compared, model="lambda-engine", against="lambda-exact"),
        FINDINGS,
    ),
    Claim(
        "lambda layers on the engine reach a bit more than 84 %",
        ARTICLES,
        partial(claims.reaches_without_engine, model="lambda"),
        OWN,
    ),
    open_question(
        "tier `listing`, 20 epochs",
        ARTICLES,
        "lambda layers rise to a plateau, then lose accuracy by overfitting",
    ),
    open_question(
        "tier `listing`", ARTICLES, "the listing's network reaches these accuracies with its own recipe"
    ),
    Claim(
        "optics save an order of magnitude of power with no loss",
        ARTICLES,
        claims.joules_of_circular,
        ENERGY,
    ),
    Claim(
        "an optical transform takes constant time at any size",
        ARTICLES,
        claims.passes,
        ("plans", "optics/physics.md#fewer-errors-or-fewer-passes"),
    ),
    Claim(
        "light can compute the transforms of FNet",
        FNET_ARTICLE,
        partial(claims.compared, model="fnet-engine", against="fnet-exact"),
        FINDINGS,
    ),
    Claim(
        "the optical transform is 100 times as efficient as an A100",
        FNET_ARTICLE,
        claims.joules_against_gpu,
        PROJECTED,
    ),
    Claim(
        "the transforms take up to 30 % of inference on a GPU",
        FNET_ARTICLE,
        claims.share_of_inference,
        PROJECTED,
    ),
    Claim(
        "an optical transform makes inference 1.4 times as fast",
        FNET_ARTICLE,
        claims.gain_of_light,
        PROJECTED,
    ),
    open_question("a TPU", FNET_ARTICLE, "a TPU's transforms become 1,000 times as efficient"),
    Claim(
        "FNet trains faster than BERT",
        PAPER,
        partial(claims.faster, what="fnet / bert", size="12 layers, d768"),
        ENCODERS,
    ),
    Claim(
        "FNet trains 80 % faster than BERT as published (on GPUs)",
        PAPER,
        partial(claims.faster_on_gpus, what="fnet / bert with attention dropout", size="12 layers, d768"),
        ENCODERS,
    ),
    open_question("a TPU", PAPER, "FNet trains 70 % faster than BERT on TPUs"),
    Claim("FNet's speed-up grows with the length of the text", PAPER, claims.longer, ENCODERS),
    Claim(
        "FNet has fewer parameters, because transforms have none",
        FNET_ARTICLE,
        partial(claims.fewer, tier="2", model="fnet", against="attention"),
        OWN,
    ),
    Claim(
        "attention takes time that grows with the square of the number of tokens",
        FNET_ARTICLE,
        partial(claims.growing, mixers=ATTENTION, of="ms", exponent=2.0, said="time"),
        GROWTH,
    ),
    Claim(
        "Fourier mixing takes time that grows about linearly, as n log n",
        FNET_ARTICLE,
        partial(
            claims.growing,
            mixers={128: "fourier", 768: "fourier, d = 768"},
            of="ms",
            exponent=1.1,
            said="time",
        ),
        GROWTH,
    ),
    Claim(
        "FNet reaches 92 % of BERT's GLUE score after pre-training",
        PAPER,
        partial(claims.share_on_wikitext, model="fnet-wiki-tiny", bound=0.92),
        PRETRAINING,
    ),
    Claim(
        "a hybrid reaches 97 % of BERT's GLUE score",
        PAPER,
        partial(claims.share_on_wikitext, model="hybrid-3-wiki-tiny", bound=0.97),
        PRETRAINING,
    ),
    Claim(
        "FNet trains more stably than BERT",
        PAPER,
        partial(claims.steadier, model="fnet", against="bert"),
        PRETRAINING,
    ),
    open_question("a GPU", PAPER, "large models: FNet keeps its accuracy, and Linear breaks down"),
    Claim(
        "a network can do without attention (IMDb, less than a point lower)",
        PAPER,
        partial(claims.differing, model="fnet", against=("attention",), bound=-0.01),
        SMALL,
    ),
    Claim(
        "Fourier mixing is better than other mixing without attention (linear and random; IMDb)",
        PAPER,
        partial(claims.differing, model="fnet", against=("linear", "random")),
        SMALL,
    ),
    Claim(
        "a few layers of attention improve FNet (IMDb)",
        PAPER,
        partial(claims.compared, model="hybrid", against="fnet"),
        FINDINGS,
    ),
    Claim(
        "mixing matters: feed-forward layers alone are worse (IMDb)",
        PAPER,
        partial(claims.differing, model="fnet", against=("identity",)),
        SMALL,
    ),
    Claim(
        "mixing matters on recall, too",
        PAPER,
        lambda results: claims.by_seeds(
            results, "recall", "conv_attention", "identity", recalled, "`conv_attention` - `identity`"
        ),
        RECALL,
    ),
    Claim(
        "lambda layers are better than attention on images (CIFAR-10, small networks)",
        LAMBDA,
        lambda results: claims.all_of(
            *(
                claims.by_seeds(
                    results, "cifar10", name, "attention", fifth_batch, f"batch 5, `{name}` - `attention`"
                )
                for name in ("lambda-3", "lambda-7")
            )
        ),
        IMAGES,
    ),
    open_question("a GPU and the data set", LAMBDA, "lambda networks are more accurate on ImageNet"),
    Claim("attention commutes with permutations of tokens", CHAPTER, claims.commuting, SYMMETRIES),
    Claim("convolutions and attention have matrices of low rank", CHAPTER, claims.rank, MATRICES),
    Claim(
        "a per-token MLP is a convolution of size one, and patches are a convolution",
        CHAPTER,
        partial(claims.holds_in_tests, test=TESTS),
        ("chapter", "chapter.md"),
    ),
    Claim(
        "a question attends to the object that it is about",
        CHAPTER,
        claims.pointing,
        ("questions", "chapter.md#questions-about-images-section-151"),
    ),
    open_question("a CNN with such an input", CHAPTER, "positional codes help a CNN"),
)


@lru_cache(maxsize=1)
def judged(results: Results) -> list[tuple[Claim, Judged]]:
    """Returns the verdict on every claim."""
    return [(claim, claim.judge(results)) for claim in CLAIMS]


def claim_table(results: Results) -> str:
    """Tabulates every claim of the sources with its verdict."""
    lines = [
        [
            str(i),
            claim.text,
            claim.source,
            found.verdict,
            found.result,
            f"[{claim.shown[0]}]({claim.shown[1]})",
        ]
        for i, (claim, found) in enumerate(judged(results), 1)
    ]
    return table(["", "Claim", "Source", "Verdict", "Result (95 % interval or range)", "Shown in"], lines)


def claim_counts(results: Results) -> str:
    """Returns how many claims have each verdict, in words."""
    counts = Counter(found.verdict for _, found in judged(results))
    *most, last = (f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    return f"{', '.join(most)} and {last}"
