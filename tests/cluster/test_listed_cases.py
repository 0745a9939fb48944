"""Every test case that the specifications of clusters list, with the test here that stands for it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

DISCOVERY, PLATFORM, JOBS, ROLES = "cluster/discovery/", "cluster/platform/", "train/job/", "train/roles/"
CHECKS = f"{DISCOVERY}discovery_checks.py::check_"

CASES = {
    "service_discovery": {
        "Consul test_basic": f"{CHECKS}registered_addresses_are_found",
        "Consul test_duplicate_registration": f"{CHECKS}a_second_registration_replaces_the_address",
        "Consul test_multi_names": f"{CHECKS}names_are_apart",
        "Consul test_retry": f"{DISCOVERY}test_consul.py::test_the_retry_rule",
        "Consul test_retry, then raises": f"{DISCOVERY}test_consul.py::test_no_agent_is_an_error_after_five_attempts",
        "Consul test_registration_failed": (
            f"{DISCOVERY}test_consul.py::test_a_registration_that_consul_does_not_show_fails"
        ),
        "Consul tags {index, name, ip}": (
            f"{DISCOVERY}test_consul.py::test_a_registration_says_index_name_and_ip_in_tags"
        ),
        "Utils test_deregister_all": (
            f"{DISCOVERY}test_consul.py::test_deregister_all_takes_back_what_every_process_registered"
        ),
        "test_tf_conf_sd, lists": f"{DISCOVERY}test_tf_config.py::test_the_chief_is_the_first_worker",
        "test_tf_conf_sd, addr, server_type, index": f"{DISCOVERY}test_tf_config.py::test_who_this_process_is",
        "ZK test_basic": f"{DISCOVERY}test_zookeeper.py::test_contract",
        "ZK test_duplicate_registration": f"{CHECKS}a_second_registration_replaces_the_address",
        "ZK test_multi_names": f"{CHECKS}names_are_apart",
        "ZK test_periodic_registration": f"{DISCOVERY}test_zookeeper.py::test_damaged_data_is_repaired_after_a_period",
        "ZK test_listener": f"{DISCOVERY}test_zookeeper.py::test_a_lost_session_is_registered_again",
        "ZK ephemeral nodes": f"{DISCOVERY}test_zookeeper.py::test_a_registration_is_a_node_of_the_session",
        "MLP query_all, server_type, index": (
            f"{PLATFORM}test_mlp_env.py::TestDiscovery.test_everything_is_known_from_the_start"
        ),
        "MLP register": f"{PLATFORM}test_mlp_env.py::TestDiscovery.test_what_the_platform_does_not_say_is_refused",
        "MLP deregister, deregister_all": (
            f"{PLATFORM}test_mlp_env.py::TestDiscovery.test_a_deregistered_process_is_hidden_until_it_registers"
        ),
        "MLP query, port check": (
            f"{PLATFORM}test_mlp_env.py::TestDiscovery.test_a_ps_that_does_not_answer_is_left_out_after_the_limit"
        ),
        "MLP server_type and index": f"{ROLES}test_role.py::test_the_mlp_platform_says_role_and_counts",
    },
    "runner_utils": {
        "test_get_discovery_local": f"{ROLES}test_discovery.py::test_a_local_run_has_none",
        "test_get_discovery_primus": f"{ROLES}test_discovery.py::test_primus_says_who_this_process_is",
        "test_get_discovery_consul": f"{ROLES}test_discovery.py::test_consul_and_mlp",
        "test_get_discovery_zk": f"{ROLES}test_discovery.py::test_zookeeper",
        "monolith_discovery closes": f"{ROLES}test_discovery.py::test_a_block_has_the_discovery_and_closes_it",
        "test_copy_ckpt": (
            "train/test_restore_options.py::test_another_folder_is_started_from_without_its_place_in_the_data"
        ),
        "test_copy_ckpt, restore_ckpt": "train/test_restore_options.py::test_a_named_one_is_gone_back_to_once",
        "isabs": "checkpoint/format/state_files/test_checkpoint_file.py::test_hdfs_and_other_urls_are_absolute",
        "MPI hook": f"{PLATFORM}test_mpi.py::test_the_settings_of_a_run_let_a_failure_end_all_ranks",
        "rank as index": f"{ROLES}test_role.py::test_the_rank_is_the_role",
        "mlp_pass": f"{PLATFORM}test_mlp_env.py::test_the_data_service_of_a_job",
    },
    "net_utils": {
        "test_basic": "cluster/test_addresses.py::test_the_living_are_told_from_the_dead",
        "test_basic, threads": "cluster/test_addresses.py::test_many_are_checked_at_a_time",
        "test_concat_ip_and_port": "cluster/test_addresses.py::test_addresses_are_written_and_read",
        "test_get_local_server_addr": "cluster/test_addresses.py::test_this_host_has_an_address",
    },
    "zk_utils": {
        "is_ipv6_only by environment": (
            f"{PLATFORM}test_site_environment.py::test_a_platform_says_which_addresses_a_host_has"
        ),
        "is_ipv6_only by name": f"{PLATFORM}test_site_environment.py::test_elsewhere_the_name_of_the_host_decides",
        "default_zk_servers": f"{PLATFORM}test_site_environment.py::test_the_servers_of_a_site",
        "MonolithKazooClient, auth_data": f"{PLATFORM}test_site_environment.py::test_credentials_for_zookeeper",
        "clear_zk_path, old jobs": (
            f"{DISCOVERY}test_zookeeper.py::test_clearing_removes_old_jobs_without_a_living_process"
        ),
        "clear_zk_path, this job": f"{DISCOVERY}test_zookeeper.py::test_clearing_refuses_a_job_that_is_registered",
    },
    "mlp_utils": {
        "check_port": "cluster/test_addresses.py::test_check_port",
        "check_port, retries": "cluster/test_addresses.py::test_check_port_waits_for_a_port_that_opens_late",
        "check_port, time-out": "cluster/test_addresses.py::test_check_port_ends_at_its_limit_if_nobody_answers",
        "MLPEnv": f"{PLATFORM}test_mlp_env.py::test_a_plain_environment",
        "MLPEnv, fixed environments": f"{PLATFORM}test_mlp_env.py::test_hosts_ports_and_addresses",
        "MLPEnv, MPI": f"{PLATFORM}test_mlp_env.py::test_workers_that_mpirun_started_count_by_rank",
        "wait": f"{PLATFORM}test_mlp_env.py::test_waiting_for_a_port",
        "join": f"{PLATFORM}test_mlp_env.py::test_joining_ends_the_process_when_the_port_is_closed",
        "start_profiler, profiler_trace": (
            f"{PLATFORM}test_mlp_env.py::TestProfiler.test_a_trace_of_all_threads_arrives"
        ),
        "add_mpi_exception_hook": f"{PLATFORM}test_mpi.py::test_mpirun_ends_all_ranks",
        "mlp_pass, EXTRA_DSWORKERS": "data_service/test_service_of_a_job.py::test_extra_workers_run_in_this_process",
    },
    "yarn_runtime": {
        "test_get_local_host_overwrite": f"{PLATFORM}test_primus.py::test_the_host_is_what_the_cluster_says",
        "test_get_local_host_overwrite_by_cloudnative": (
            f"{PLATFORM}test_primus.py::test_the_host_is_what_the_cluster_says"
        ),
        "test_get_local_host_basic": f"{PLATFORM}test_primus.py::test_the_host_without_a_cluster",
        "test_kill": f"{PLATFORM}test_primus.py::test_kill",
        "test_finish": f"{PLATFORM}test_primus.py::test_finish",
        "test_save_primus": f"{PLATFORM}test_primus.py::test_a_savepoint_is_awaited",
        "savepoint, other states": f"{PLATFORM}test_primus.py::test_a_savepoint_that_fails",
        "savepoint, code": f"{PLATFORM}test_primus.py::test_a_savepoint_that_is_refused",
        "grpc.RpcError": f"{PLATFORM}test_primus.py::test_an_application_master_that_fails",
        "no host": f"{PLATFORM}test_primus.py::test_without_primus_nothing_is_asked",
    },
    "estimator": {
        "estimator_test test_local": "e2e/test_front_door.py::test_from_a_data_set_to_a_live_server",
        "estimator_dist_test test_dist": f"{JOBS}test_original_jobs.py::test_dist",
        "estimator_mode_test test_cpu0..3": "e2e/test_modes.py::test_cpu",
    },
    "cpu_training": {
        "distributed test0": f"{JOBS}test_original_jobs.py::test_a_job_of_the_original_ends_well",
        "distributed test1": (
            f"{JOBS}test_original_jobs.py::test_a_parameter_server_that_never_exits_does_not_hold_up_the_others"
        ),
        "distributed test2": f"{JOBS}test_original_jobs.py::test_a_job_of_the_original_ends_well",
        "num_extra_ps": (
            f"{ROLES}test_server_choice.py::test_the_slowest_are_left_out_and_replace_those_that_are_lost"
        ),
        "num_redundant_ps": f"{ROLES}test_server_choice.py::test_redundant_ones_wait_without_being_measured",
    },
}
"""By specification. The cases on GPUs and those of `cpu_sync_training_test` belong to training in step."""


@pytest.mark.parametrize("specification", CASES)
def test_every_case_has_its_test(specification):
    missing = []
    for case, where in CASES[specification].items():
        path, _, name = where.partition("::")
        if name not in functions_in(ROOT / "tests" / path):
            missing.append(f"{case}: {where}")
    assert not missing


def functions_in(path):
    """Names of the functions of a file, and of those of its classes."""
    tree = ast.parse(path.read_text())
    found = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef):
            found |= {f"{kind.name}.{one.name}" for one in kind.body if isinstance(one, ast.FunctionDef)}
    return found
