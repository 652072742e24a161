"""Batches of images, flipped, cropped and mixed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pictures import drawn

from fourier_attn.data.augmentation import Augmentation, augment
from fourier_attn.data.images import ImageBatches, statistics
from fourier_attn.train.losses import OBJECTIVES


def batches(**changes: Any) -> ImageBatches:
    images, labels = drawn(50, 8, 6, 3)
    given = {"batch": 16, "seed": 3, "epochs": 3, "augmentation": Augmentation(True, 2, "cutmix")} | changes
    return ImageBatches(images, labels, **given)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    one, other = batches(), batches()
    backwards = {i: other[i] for i in reversed(range(len(other)))}
    for i in range(len(one)):
        jax.tree.map(np.testing.assert_array_equal, one[i], backwards[i])
    assert not np.array_equal(one[0]["inputs"], batches(seed=4)[0]["inputs"])
    assert not np.array_equal(one[0]["inputs"], one[4]["inputs"])


def test_an_epoch_holds_each_image_once() -> None:
    made = batches(augmentation=Augmentation())
    for epoch in range(2):
        seen = [made[i] for i in range(4 * epoch, 4 * epoch + 4)]
        real = np.concatenate([batch["index"][batch["weight"] > 0] for batch in seen])
        assert sorted(real) == list(range(50))
        assert all(np.array_equal(made.rows[b["index"]], b["inputs"]) for b in seen)
        assert all(np.array_equal(made.labels[b["index"]], b["label"]) for b in seen)


def test_evaluation_augments_nothing() -> None:
    made = batches(seed=None, epochs=1)
    np.testing.assert_array_equal(made[0]["inputs"], made.rows[:16])
    assert "second_label" not in made[0]


def test_flipped_and_cropped_images() -> None:
    """Each is the image or its mirror image, moved by up to so many pixels, with black outside."""
    images, labels = drawn(64, 8, 6, 3)
    found = augment(images, labels, np.random.default_rng(0), Augmentation(flip=True, crop=2))["inputs"]
    moves = set()
    for before, after in zip(images, found, strict=True):
        for flipped, x in ((0, before), (1, before[:, ::-1])):
            padded = np.pad(x, ((2, 2), (2, 2), (0, 0)))
            places = np.ndindex(5, 5)
            moves |= {(flipped, i, j) for i, j in places if (padded[i : i + 8, j : j + 6] == after).all()}
    assert len(moves) > 30  # of 50
    assert {move[0] for move in moves} == {0, 1}


def test_mixup() -> None:
    images, labels = drawn(32, 8, 6, 3)
    batch = augment(images, labels, np.random.default_rng(0), Augmentation(mix="mixup"))
    share = batch["share"][0]
    other = np.random.default_rng(0).permutation(32)
    np.testing.assert_array_equal(batch["second_label"], labels[other])
    np.testing.assert_allclose(batch["inputs"], share * images + (1 - share) * images[other], atol=0.501)
    assert (batch["inputs"].dtype, (batch["share"] == share).all()) == (np.uint8, True)


@pytest.mark.parametrize("mix", ["mixup", "cutmix"])
def test_real_images_are_mixed_with_real_ones_only(mix: str) -> None:
    """Those of a ragged last batch, whose other places are filled with copies of its first image."""
    images, labels = (
        np.arange(11, dtype=np.uint8).reshape(-1, 1, 1, 1) * np.ones((8, 6, 3), np.uint8),
        range(11),
    )
    mixed = set()
    for seed in range(5):
        last = ImageBatches(images, np.array(labels), batch=8, seed=seed, augmentation=Augmentation(mix=mix))[
            1
        ]
        assert last["weight"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
        first, second = last["label"], last["second_label"]
        assert sorted(second[:3]) == sorted(first[:3])  # each is the partner of one
        np.testing.assert_array_equal(second[3:], first[3:])
        mixed |= set((second[:3] != first[:3]).tolist())
    assert True in mixed


def test_cutmix_has_the_share_of_its_pixels() -> None:
    images, labels = np.stack([np.full((9, 7, 1), n, np.uint8) for n in range(32)]), np.arange(32)
    shares = set()
    for seed in range(20):
        batch = augment(images, labels, np.random.default_rng(seed), Augmentation(mix="cutmix"))
        own = batch["inputs"] == images
        moved = batch["second_label"] != labels
        np.testing.assert_allclose(own.mean((1, 2, 3))[moved], batch["share"][moved], atol=1e-6)
        other = np.broadcast_to(batch["second_label"][:, None, None, None], images.shape)
        assert (batch["inputs"] == np.where(own, images, other)).all()
        shares.add(round(float(batch["share"][0]), 3))
    assert len(shares) > 10


def test_the_loss_of_mixed_images_is_that_of_both_labels() -> None:
    objective, logits = OBJECTIVES["classes"], jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)))
    logits = logits.astype(jnp.float32)
    first, second = jnp.array([0, 1, 2, 0]), jnp.array([2, 2, 1, 0])
    share, weight = jnp.array([1.0, 0.0, 0.25, 0.5]), jnp.array([1.0, 1.0, 1.0, 0.0])
    batch = {"label": first, "second_label": second, "share": share, "weight": weight}
    loss, count = objective.sums(logits, batch)["loss"]
    logp = np.asarray(jax.nn.log_softmax(logits))
    rows = np.arange(4)
    terms = -(share * logp[rows, first] + (1 - share) * logp[rows, second]) * weight
    np.testing.assert_allclose([loss, count], [terms.sum(), 3], rtol=1e-6)


def test_statistics() -> None:
    images, _ = drawn(9, 8, 6, 3)
    mean, deviation = statistics(images)
    np.testing.assert_allclose(mean, (images / 255).mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(deviation, (images / 255).std((0, 1, 2)), atol=1e-6)
