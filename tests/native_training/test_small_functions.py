"""The small functions of `native_training.utils`, under their described figures."""

import os
import socket

import pytest
import torch

import monolith  # noqa: F401 - registers the original paths
from monolith.embedding import MultiTable
from monolith.native_training import utils
from monolith.native_training.test_utils import create_test_ps_cluster, generate_test_hash_table_config


def test_gradients_are_carried_back_and_grouped():
    x = torch.tensor(8.0, requires_grad=True)
    y = 2 * x
    grad_y = 3 * y.detach()
    grouped = utils.propagate_back_dict_gradients(zip([grad_y], [y], strict=True), {x: "group1"}, {y})
    ((dx, same),) = grouped["group1"]
    assert (float(dx), same.item()) == (96.0, 8.0)
    with pytest.raises(RuntimeError, match="Invalid variables in the input"):
        utils.propagate_back_dict_gradients([(grad_y, y)], {x: "group1"}, {x})


def test_dependence_follows_the_autograd_graph():
    v = torch.tensor(1.0, requires_grad=True)
    add = v + 1
    t1, t2 = add * 2, v * 3
    with pytest.raises(Exception, match=r"the ops \[MulBackward0\] depend on ops \[AddBackward0\]"):
        utils.check_ops_dependence(t1, add)
    with pytest.raises(Exception, match="leaf of shape"):
        utils.check_ops_dependence([t2], [v])
    utils.check_ops_dependence(t1, t2)
    utils.check_ops_dependence(torch.tensor(1.0), [t1, v])


def test_collections():
    for value in (1, 2, 0):
        utils.add_to_collections("int", value)
    utils.add_to_collections(["str", "other"], "str")
    utils.add_to_collections("bool", True)
    for value in ([1, 2, 3], [4, 5, 6], [], None):
        utils.add_to_collections("list", value)
    utils.add_to_collections("bools", [False])
    assert utils.get_collection("int") == [1, 2, 0]
    assert (utils.get_collection("str")[-1], utils.get_collection("other")[-1]) == ("str", "str")
    assert utils.get_collection("bool")[-1] is True
    assert utils.get_collection("list")[-1] == [4, 5, 6]
    assert utils.get_collection("bools")[-1] == [False]
    assert utils.get_collection("nothing") is None


def test_names_and_lists():
    assert utils.ps_device(2) == "/job:ps/task:2/device:CPU:0"
    assert utils.to_snake_case("TestFFMModel") == "test_ffm_model"
    assert utils.to_snake_case("_Hidden") == "private_hidden"
    given = [1]
    assert utils.to_list(given) is given
    assert utils.to_list((1, 2)) == [(1, 2)]
    assert utils.extend_as_list([1], 3) == [1, None, None]
    assert utils.extend_as_list([1, 2, 3], 2) == [1, 2, 3]
    assert utils.extend_as_list((1,), 2) == [1, None]
    assert utils.check_list(None, lambda n: True, could_be_none=True) is None
    for wrong, error in ((None, TypeError), ((1,), TypeError), ([1], ValueError)):
        with pytest.raises(error):
            utils.check_list(wrong, lambda n: n > 1)
    assert utils.int_shape(torch.zeros(2, 3)) == (2, 3)
    assert utils.get_ndim(torch.zeros(2, 3)) == 2


def test_paths_and_the_metric_prefix(monkeypatch):
    assert utils.get_debugging_info_file_name("m") == os.path.join("m", "debugging_info.pb")
    assert utils.get_meta_graph_file_name("m") == os.path.join("m", "meta_graph_for_debugging.pb")
    monkeypatch.setenv("TEST_TMPDIR", "/there")
    assert utils.get_test_tmp_dir() == "/there"
    monkeypatch.delenv("TEST_TMPDIR")
    assert utils.get_test_tmp_dir() == "/tmp"
    monkeypatch.delenv("MONOLITH_METRIC_PREFIX", raising=False)
    assert utils.get_metric_prefix() == "monolith.training"
    monkeypatch.setenv("MONOLITH_METRIC_PREFIX", "changed below")
    utils.set_metric_prefix("mine")
    assert utils.get_metric_prefix() == os.environ["MONOLITH_METRIC_PREFIX"] == "mine"


def test_the_address_of_this_machine(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert utils.get_local_host() == "127.0.0.1"
    monkeypatch.setattr(socket, "gethostname", lambda: "no-such-machine.invalid")
    with pytest.raises(OSError, match=r"'no-such-machine\.invalid' has no address"):
        utils.get_local_host()


def test_a_cluster_for_tests_has_a_server_per_address():
    servers, addresses = create_test_ps_cluster(2)
    for server in servers:
        server.close()
    assert addresses == {"ps": [str(server.address) for server in servers]}
    with pytest.raises(ValueError, match="num_ps=0"):
        create_test_ps_cluster(0)


@pytest.mark.parametrize("use_float16", [False, True])
def test_a_table_for_tests_starts_at_zero_and_learns_by_sgd(use_float16):
    config = generate_test_hash_table_config(3, use_float16=use_float16, learning_rate=0.5)
    tables, ids = MultiTable({"table": config.as_table_config("table")}), torch.tensor([7, 8])
    assert tables["table"].lookup(ids).tolist() == [[0.0] * 3] * 2
    gradients = torch.tensor([[1.0, 2.0, 1.0 / 3], [4.0, 8.0, 0.0]])
    tables.apply_gradients({"table": (ids, gradients)})
    rows = tables["table"].lookup(ids)
    assert torch.allclose(rows, -0.5 * gradients, rtol=1e-3)
    assert torch.equal(rows.half().float(), rows) == use_float16
    assert config == generate_test_hash_table_config(3, use_float16=use_float16, learning_rate=0.5)
    assert config != generate_test_hash_table_config(2, use_float16=use_float16, learning_rate=0.5)
