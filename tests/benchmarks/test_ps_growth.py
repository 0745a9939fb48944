"""The model of how a job with table servers grows."""

import pytest

from benchmarks.ps.growth import Cost, fit, growth, predict
from benchmarks.ps.growth_page import COMMAND, PAGE, growth_lines, newest_result, page_with

WORKER, SERVER = Cost(request=2e-5, row=5e-8), Cost(request=4e-5, row=1e-7)
SHAPE = {"num_ids": 100_000, "dim": 16}


def test_a_line_is_found_again():
    sizes = [100, 1_000, 10_000, 100_000]
    found = fit(sizes, [WORKER.seconds(1, size) for size in sizes])
    assert found.request == pytest.approx(WORKER.request, rel=1e-3)
    assert found.row == pytest.approx(WORKER.row, rel=1e-3)


def test_a_falling_line_costs_nothing_per_row():
    assert fit([1, 100], [2.0, 1.0]).row == 0


def test_workers_are_the_limit_until_servers_are():
    few, name = predict(WORKER, SERVER, num_ps=16, num_workers=1, **SHAPE)
    assert name == "rows of a worker"
    more, _ = predict(WORKER, SERVER, num_ps=16, num_workers=2, **SHAPE)
    assert more == pytest.approx(2 * few)
    _, name = predict(WORKER, SERVER, num_ps=1, num_workers=1_000, **SHAPE)
    assert name == "rows of a server"
    _, name = predict(WORKER, Cost(request=1e-5, row=1e-9), num_ps=1, num_workers=1_000, **SHAPE)
    assert name == "network of a server"


def test_with_many_servers_requests_are_the_limit():
    _, name = predict(WORKER, SERVER, num_ps=1_000, num_workers=1, **SHAPE)
    assert name == "requests of a worker"
    _, name = predict(WORKER, SERVER, num_ps=1_000, num_workers=100_000, **SHAPE | {"num_ids": 1_000})
    assert name == "requests of a server"


def test_a_report_names_the_bottleneck_up_to_a_thousand_servers():
    model = growth(WORKER, SERVER, **SHAPE)
    assert model["predictions"][-1]["num_ps"] == 1_000
    assert all(one["batches_per_second"] > 0 and one["bottleneck"] for one in model["predictions"])


def test_the_page_has_the_figures_of_the_newest_result():
    page = PAGE.read_text(encoding="utf-8")
    assert page_with(growth_lines(newest_result()), page) == page, f"run `{COMMAND}`"


def test_a_page_without_a_place_for_figures_is_an_error():
    with pytest.raises(ValueError, match="there are no lines to replace"):
        page_with("lines", "a page")
