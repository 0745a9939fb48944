"""Down-sampled negatives: which are kept, and that the correction gives back the true rate."""

import math

import numpy as np
import pytest
import torch

from monolith.data.joiner import JoinConfig, Joiner, corrected_logit
from monolith.data.joiner.keys import mix64
from monolith.data.joiner.negatives import keep_mask
from tests.data.joiner.made_stream import Event, Played

RATE = 0.1
NUM_IMPRESSIONS = 20_000
NUM_POSITIVES = 1_000


@pytest.fixture(scope="module")
def sampled():
    """Every twentieth impression is clicked; a tenth of the others is kept."""
    events = []
    for n in range(NUM_IMPRESSIONS):
        events.append(Event((n, n), 1000 + n // 100, 0, 0, n))
        if n % (NUM_IMPRESSIONS // NUM_POSITIVES) == 0:
            events.append(Event((n, n), 1000 + n // 100, 1, 1, n))
    wanted = JoinConfig(
        key=("req_id",), window_seconds=20, negative_keep_rate=RATE, seed=3, at_end="flush", batch_seconds=50
    )
    joiner = Joiner(Played({"p": events}, 500), wanted)
    batches = list(joiner)
    columns = {name: torch.cat([b.columns[name] for b in batches]) for name in ("label", "sample_rate", "seq")}
    return joiner, columns


def test_all_positives_and_about_the_asked_share_of_negatives_stay(sampled):
    joiner, columns = sampled
    label = columns["label"]
    assert label.sum() == NUM_POSITIVES
    num_negatives = NUM_IMPRESSIONS - NUM_POSITIVES
    kept = int((label == 0).sum())
    assert abs(kept - RATE * num_negatives) < 5 * math.sqrt(num_negatives * RATE * (1 - RATE))
    assert joiner.num_dropped_negatives == num_negatives - kept
    assert torch.equal(columns["sample_rate"], torch.where(label == 1, 1.0, RATE))


def train_constant(label, weight=None):
    """Return the logit that a model without features learns."""
    logit = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logit], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(
            logit.expand(len(label)), label.double(), weight=weight
        )
        value.backward()
        return value

    optimizer.step(loss)
    return logit.detach()


def test_the_corrected_probability_is_the_true_rate(sampled):
    _, columns = sampled
    label = columns["label"]
    true_rate = NUM_POSITIVES / NUM_IMPRESSIONS
    # The number of kept negatives is random: its share of error is the share of error of the odds.
    tolerance = 5 / math.sqrt(RATE * NUM_IMPRESSIONS)
    learned = train_constant(label)
    assert learned.sigmoid() > 4 * true_rate  # without the correction it is far off
    corrected = corrected_logit(learned, RATE).sigmoid().item()
    assert corrected == pytest.approx(true_rate, rel=tolerance)
    weighted = train_constant(label, 1 / columns["sample_rate"].double()).sigmoid().item()
    assert weighted == pytest.approx(corrected, rel=1e-4)  # the other way to the same figure


def test_the_correction_is_exact_where_the_sample_is():
    positives, negatives, rate = 30, 970, 0.25
    sampled = math.log(positives / (negatives * rate))
    assert corrected_logit(sampled, rate) == pytest.approx(math.log(positives / negatives))
    assert corrected_logit(sampled, rate) < sampled
    with pytest.raises(ValueError, match="negative_keep_rate"):
        corrected_logit(0.0, 0.0)


def test_what_is_kept_depends_on_seed_and_key_alone():
    hashes = mix64(np.arange(10_000, dtype=np.uint64))
    kept = keep_mask(hashes, 0.3, seed=1)
    assert np.array_equal(kept[::-1], keep_mask(hashes[::-1], 0.3, seed=1))
    other = keep_mask(hashes, 0.3, seed=2)
    # Independent draws agree on keeping with 0.09.
    assert abs((kept & other).mean() - 0.09) < 5 * math.sqrt(0.09 * 0.91 / 10_000)
    assert not (kept & ~keep_mask(hashes, 0.5, seed=1)).any()  # a higher rate keeps what a lower one kept
    assert keep_mask(hashes, 1.0, seed=1).all()
