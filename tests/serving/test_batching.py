"""Requests that wait at the same time are predicted together, and each gets its own answer or error."""

import asyncio
import json

import numpy as np
import pytest

from monolith.export import load_export
from monolith.serving import batching
from monolith.serving.batching import Batches
from monolith.serving.forms import predict_form
from monolith.serving.models.warm_up import warm_up
from tests.export.movie import export, request
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_export(export(tmp_path_factory.mktemp("batches")))


def body(columns):
    return json.dumps({"inputs": {name: values.tolist() for name, values in columns.items()}}).encode()


def asked_at_once(model, bodies, max_batch=None):
    """Return the outcome of each request and the number of examples of each batch; all wait before the first batch."""
    sizes = []
    predict_together = model.predict_together

    def counted(questions):
        sizes.append(sum(question.num_examples for question in questions))
        return predict_together(questions)

    async def ask():
        batches = Batches(max_batch=max_batch)
        tasks = [asyncio.create_task(batches.answer(model, predict_form.read_request, one, None)) for one in bodies]
        await asyncio.sleep(0)  # now every request is in the queue
        with batches:
            return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE_SECONDS)

    model.predict_together = counted
    try:
        return asyncio.run(ask()), sizes
    finally:
        del model.predict_together


def test_requests_that_wait_are_one_batch_and_a_wrong_one_fails_alone(model):
    asked = [request(3, seed=1), {**request(5, seed=2), "uid": np.array([7])}, request(0), request(1, seed=3)]
    (first, wrong, *others), sizes = asked_at_once(model, [body(asked[0]), b'{"inputs": {}}', *map(body, asked[1:])])
    assert sizes == [9]
    assert "'uid' is missing" in str(wrong)
    for columns, answer in zip(asked, [first, *others], strict=True):
        expected = model.predict(columns)["pred"]
        assert answer.num_examples == len(expected)
        np.testing.assert_allclose(json.loads(answer.content)["outputs"], expected, rtol=0, atol=1e-6)


def test_a_batch_has_a_limit(model, monkeypatch):
    monkeypatch.setattr(batching, "MAX_EXAMPLES", 6)
    monkeypatch.setattr(batching, "MAX_REQUESTS", 3)
    answers, sizes = asked_at_once(model, [body(request(count)) for count in (3, 3, 3, 20, 1)])
    assert [answer.num_examples for answer in answers] == [3, 3, 3, 20, 1]
    assert sizes == [6, 3, 20, 1]


def test_requests_together_have_no_more_examples_than_one_may_have(model):
    answers, sizes = asked_at_once(model, [body(request(count)) for count in (3, 3, 1)], max_batch=4)
    assert [answer.num_examples for answer in answers] == [3, 3, 1]
    assert sizes == [3, 4]


def test_warm_up_stays_below_the_limit(model, tmp_path, monkeypatch):
    sizes, plain = [], model.predict_together
    monkeypatch.setattr(model, "predict_together", lambda asked: sizes.append(asked[0].num_examples) or plain(asked))
    warm_up(model, export(tmp_path), max_batch=50)
    assert sizes[-4:] == [1, 1, 50, 50]


def test_if_a_batch_fails_its_requests_are_predicted_one_by_one(model, monkeypatch):
    plain = model.predict_together

    def fails(questions):
        if len(questions) > 1 or questions[0].num_examples == 2:
            raise RuntimeError("a defect")
        return plain(questions)

    monkeypatch.setattr(model, "predict_together", fails)

    async def ask():
        batches = Batches()
        tasks = [
            asyncio.create_task(batches.answer(model, predict_form.read_request, body(request(count)), None))
            for count in (1, 2, 3)
        ]
        await asyncio.sleep(0)
        with batches:
            return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE_SECONDS)

    one, two, three = asyncio.run(ask())
    assert (one.num_examples, str(two), three.num_examples) == (1, "a defect", 3)
