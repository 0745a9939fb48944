"""Cached variables over real parameter servers: the specification's test cases, and what it promises besides."""

import gc

import pytest
import torch
from torch import nn

from monolith.errors import RemoteError
from monolith.hooks import RunContext, StepValues
from monolith.native_training import variables
from monolith.native_training.test_utils import create_test_ps_cluster
from monolith.native_training.variables import (
    FetchAllCachedVariablesHook,
    assign_all_cached_variables,
    cached_value,
    cached_variable_creator,
    fetch_all_cached_variables,
)
from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.dense.ps_variable import PsVariable

VALUES = StepValues(step=0, loss=0.0, num_events=0, partition="p", first=0, last=1)


@pytest.fixture
def servers():
    started, addresses = create_test_ps_cluster(2)
    with ControlClients(addresses["ps"]) as clients:
        yield clients
    for server in started:
        server.close()


@pytest.fixture
def var(servers):
    """A cached variable on PS 1, which starts at 5."""
    return cached_variable_creator(
        lambda **kwargs: PsVariable(servers, task=1, **kwargs), name="var", initial_value=5.0
    )


def test_basic(var):
    assert var.device == "/job:ps/task:1"
    assert var * 1.0 == 5.0
    var.assign_add(2.0)
    assert var * 1.0 == 5.0
    assert var.read() == 7.0
    fetch_all_cached_variables()
    assert var * 1.0 == 5.0, "fetched, but not assigned"
    assign_all_cached_variables()
    assert var * 1.0 == 7.0


def test_hook(var):
    hook, context = FetchAllCachedVariablesHook(), RunContext(model=nn.Module(), tables=None)
    var.assign(6.0)
    hook.after_create_session(context)
    hook.before_run(context)
    assert var * 1.0 == 6.0, "the first step begins with the owner's value"
    var.assign_sub(2.0)
    hook.after_run(context, VALUES)
    hook.before_run(context)
    hook.after_run(context, VALUES)
    assert var * 1.0 == 4.0
    hook.end(context)


def test_gradient(var):
    loss = var * 1.0
    loss.backward()
    assert var.grad == 1.0
    var.apply_gradient(learning_rate=1.0)
    assert var.read() == 4.0
    assert var * 1.0 == 5.0
    assert var.grad is None


def test_the_gradient_of_a_cached_value_goes_to_the_variable_alone(servers):
    var = PsVariable(servers, name="weights", initial_value=torch.tensor([1.0, 2.0]))
    copy = torch.tensor([3.0, 4.0], requires_grad=True)
    (cached_value(var, copy) ** 2).sum().backward()
    assert var.grad.tolist() == [6.0, 8.0]
    assert copy.grad is None


def test_arithmetic_of_a_variable_without_a_copy_asks_the_owner(servers):
    var = PsVariable(servers, name="direct", initial_value=torch.ones(2, 2))
    var.assign_add(1.0)
    assert torch.equal(3 - var * var / 2, torch.ones(2, 2))
    assert torch.equal(torch.ones(1, 2) @ var, torch.full((1, 2), 4.0))
    assert torch.equal(1 + (-var) - 2 / var, torch.full((2, 2), -2.0))


def test_a_second_process_finds_the_value_of_the_first(servers):
    first = PsVariable(servers, name="shared", initial_value=5.0)
    first.assign(9.0)
    assert PsVariable(servers, name="shared", initial_value=5.0).read() == 9.0
    with pytest.raises(RemoteError, match=r"'shared' is torch.float32 of shape \(\) here"):
        PsVariable(servers, name="shared", initial_value=[1.0, 2.0])
    with pytest.raises(RemoteError, match="no index 5"):
        PsVariable(servers, name="list", initial_value=[1.0, 2.0]).assign(0.0, index=5)


def test_what_needs_no_copy_or_has_one(servers, var):
    here = nn.Parameter(torch.ones(1))
    assert cached_variable_creator(lambda **_: here) is here
    with pytest.raises(ValueError, match="Only ResourceVariable is supported"):
        cached_variable_creator(lambda **_: 5.0)
    with pytest.raises(ValueError, match="has already been cached"):
        cached_variable_creator(lambda **_: var)


def test_a_variable_that_nobody_uses_is_not_fetched(servers):
    var = cached_variable_creator(lambda **kwargs: PsVariable(servers, **kwargs), name="short", initial_value=1.0)
    number = id(var)
    assert number in variables._META.var_id_to_assoc
    del var
    gc.collect()
    assert number not in variables._META.var_id_to_assoc
    servers.close()
    fetch_all_cached_variables()
