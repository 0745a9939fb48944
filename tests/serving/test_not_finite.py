"""A prediction that is no number is an error of that request alone, which names the output and the example."""

import asyncio

import httpx
import numpy as np
import pytest
import torch

from monolith.serving.app import create_app
from monolith.serving.metrics import Metrics
from monolith.serving.models.models import Models
from monolith.serving.models.served_model import ModelConfig, ServedModel
from tests.export.movie import export, request, trained
from tests.serving.requests import INFER, PREDICT, binary_body, infer_body

LARGEST = float(np.finfo(np.float32).max)
OVERFLOWING = 5


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Asks a model in which the logit of one movie becomes infinite, and infinity times zero is NaN."""
    base = tmp_path_factory.mktemp("not_finite")
    model, plan, tables = trained()
    model.temperature.zero_()
    tables["mov"].assign(torch.tensor([OVERFLOWING]), torch.full((1, tables["mov"].dim), LARGEST))
    export(base, model=model, plan=plan, tables=tables, name="movie")
    models = Models([ServedModel(ModelConfig(base=base))])

    async def answers(requests):
        app = create_app(models, Metrics(models))
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            return [await client.post(path, **body) for path, body in requests]

    return lambda requests: asyncio.run(answers(requests))


def columns(num_rows, overflowing=()):
    """Examples, of which some overflow."""
    asked = {**request(num_rows), "mov": np.full(num_rows, OVERFLOWING + 1)}
    asked["mov"][list(overflowing)] = OVERFLOWING
    asked["hour"][list(overflowing)] = LARGEST
    return asked


def bodies(asked):
    """One request in every form: path, content."""
    by_column = {name: values.tolist() for name, values in asked.items()}
    by_example = [dict(zip(by_column, values, strict=True)) for values in zip(*by_column.values(), strict=True)]
    content, headers = binary_body(asked, parameters={"binary_data_output": True})
    return [
        (INFER, {"json": infer_body(asked)}),
        (INFER, {"content": content, "headers": headers}),
        (PREDICT, {"json": {"inputs": by_column}}),
        (PREDICT, {"json": {"instances": by_example}}),
    ]


# A small request is predicted with others, a large one alone.
@pytest.mark.parametrize("num_rows", [4, 20_000])
def test_a_prediction_that_is_nan_is_a_422_that_names_the_output_and_the_example(ask, num_rows):
    for answer in ask(bodies(columns(num_rows, overflowing=[2, 3]))):
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"].startswith("output 'pred' of example 2 is NaN or infinite: ")
    assert [answer.status_code for answer in ask(bodies(columns(num_rows)))] == [200] * 4
