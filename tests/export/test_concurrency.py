"""Many threads at once: a prediction is made of the weights of one swap, and of whole rows."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from monolith.export import load_export
from tests.export.movie import export, randomize, request, trained

NUM_READERS = 3
NUM_PREDICTIONS = 150


def random_weights(seed):
    model, _, _ = trained()
    randomize(model, torch.Generator().manual_seed(seed))
    return {name: value.numpy() for name, value in model.state_dict().items()}


def test_a_prediction_never_mixes_old_and_new_weights(tmp_path):
    served = load_export(export(tmp_path))
    weights, columns = [random_weights(seed) for seed in (1, 2)], request(40)
    allowed = []
    for one in weights:
        served.swap_dense(one)
        allowed.append(next(iter(served.predict(columns).values())))
    assert np.abs(allowed[0] - allowed[1]).max() > 0.05
    done = threading.Event()

    def swap():
        while not done.is_set():
            for one in weights:
                served.swap_dense(one)

    def change_other_rows():
        # Enough new ids that the tables of the request grow meanwhile.
        first = 1000
        while not done.is_set() and first < 300_000:
            ids = np.arange(first, first + 500)
            served.apply_rows("mov", ids, np.ones((500, 7), np.float32))
            served.erase_rows("mov", ids[::2])
            first += 500

    def predict():
        seen, number = set(), 0
        while (number := number + 1) <= NUM_PREDICTIONS or len(seen) < 2:  # the swaps may be late
            (prediction,) = served.predict(columns).values()
            matches = [place for place, one in enumerate(allowed) if np.array_equal(prediction, one)]
            assert matches, "neither of the old nor of the new weights"
            seen.update(matches)
        return seen

    with ThreadPoolExecutor(NUM_READERS + 2) as pool:
        writers = [pool.submit(swap), pool.submit(change_other_rows)]
        readers = [pool.submit(predict) for _ in range(NUM_READERS)]
        try:
            seen = set().union(*(reader.result() for reader in readers))
        finally:
            done.set()
        for writer in writers:
            writer.result()
    assert seen == {0, 1}


def test_a_row_is_read_whole_while_it_changes(tmp_path):
    """All floats of movie 5 are equal at any moment, so its prediction is one of two."""
    served = load_export(export(tmp_path))
    columns = {**request(1), "mov": np.array([5])}
    rows = [np.full((1, 7), value, np.float32) for value in (-1.0, 1.0)]
    allowed = []
    for row in rows:
        served.apply_rows("mov", np.array([5]), row)
        allowed.append(next(iter(served.predict(columns).values())).item())
    done = threading.Event()

    def change():
        while not done.is_set():
            for row in rows:
                served.apply_rows("mov", np.array([5]), row)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        seen = {next(iter(served.predict(columns).values())).item() for _ in range(500)}
    finally:
        done.set()
        writer.join()
    assert seen <= set(allowed)
