"""The table: original module path -> {name: "home.module:attribute"}.

A path without names can still be imported. `EVERYTHING` stands for all public names of its home, which is
loaded as soon as the path is imported.
"""

from typing import Final

EVERYTHING: Final = "*"

HOMES: Final[dict[str, dict[str, str]]] = {
    "monolith.native_training.cpu_training": {
        "DistributedCpuTrainingConfig": "monolith.train.config.training_config:DistributedCpuTrainingConfig",
        "is_chief": "monolith.train.config.training_config:is_chief",
    },
    "monolith.native_training.estimator": {
        "EstimatorSpec": "monolith.model.spec:EstimatorSpec",
        "RunConfig": "monolith.train.config.run_config:RunConfig",
        "Estimator": "monolith.train.estimator:Estimator",
        "import_saved_model": "monolith.export.imported:import_saved_model",
    },
    "monolith.native_training.mlp_utils": {
        "check_port": "monolith.cluster.alive_check:check_port",
        "MLPEnv": "monolith.cluster.platform.mlp_env:MLPEnv",
        "add_mpi_exception_hook": "monolith.cluster.platform.mpi:add_mpi_exception_hook",
        "mlp_pass": "monolith.data_service.mlp_roles:mlp_pass",
        "EXTRA_DSWORKERS": "monolith.data_service.extra_workers:EXTRA_DSWORKERS",
    },
    "monolith.native_training.model": {
        "TestFFMModel": "monolith.model.zoo.ffm:TestFFMModel",
        "FFMParams": "monolith.model.zoo.ffm:FFMParams",
    },
    "monolith.native_training.net_utils": {
        "NodeAliveChecker": "monolith.cluster.alive_check:NodeAliveChecker",
        "is_ipv6_address": "monolith.cluster.host_addresses:is_ipv6_address",
        "concat_ip_and_port": "monolith.cluster.host_addresses:concat_ip_and_port",
        "get_local_ip": "monolith.cluster.host_addresses:get_local_ip",
        "is_ipv4_supported": "monolith.cluster.host_addresses:is_ipv4_supported",
        "get_local_server_addr": "monolith.cluster.host_addresses:get_local_server_addr",
        "AddressFamily": "monolith.cluster.host_addresses:AddressFamily",
    },
    "monolith.native_training.optimizers.adamom": {
        "AdamomOptimizer": "monolith.optim.adamom:DenseAdamomOptimizer",
    },
    "monolith.native_training.optimizers.rmsprop": {
        "RmspropOptimizer": "monolith.optim.rmsprop:DenseRmspropOptimizer",
    },
    "monolith.native_training.optimizers.shampoo": {
        "eigen_inverse_root": "monolith.optim.shampoo:eigen_inverse_root",
        "apply_sparse_precond": "monolith.optim.shampoo:apply_sparse_precond",
        "ShampooOptimizer": "monolith.optim.shampoo:ShampooOptimizer",
    },
    "monolith.native_training.remote_predict_ops": {},
    "monolith.native_training.runner_utils": {
        "isabs": "monolith.checkpoint.format.state_files.path_forms:isabs",
        "RunnerConfig": "monolith.train.config.runner_config:RunnerConfig",
        "get_discovery": "monolith.train.roles.discovery:get_discovery",
        "monolith_discovery": "monolith.train.roles.discovery:monolith_discovery",
    },
    "monolith.native_training.runtime.ops.gen_monolith_ops": {
        EVERYTHING: "monolith._core:native",
    },
    "monolith.native_training.save_utils": {
        "get_monolith_checkpoint_state": (
            "monolith.checkpoint.format.state_files.monolith_file:get_monolith_checkpoint_state"
        ),
        "PsMonitor": "monolith.checkpoint.shards.partial_recovery:PsMonitor",
        "PartialRecoverySaver": "monolith.checkpoint.shards.partial_recovery:PartialRecoverySaver",
    },
    "monolith.native_training.service_discovery": {
        "ServiceDiscoveryType": "monolith.train.config.runner_config:ServiceDiscoveryType",
        "ServiceDiscovery": "monolith.cluster.discovery.protocol:ServiceDiscovery",
        "ConsulServiceDiscovery": "monolith.cluster.discovery.consul.consul_discovery:ConsulServiceDiscovery",
        "TfConfigServiceDiscovery": "monolith.cluster.discovery.tf_config:TfConfigServiceDiscovery",
        "ZKServiceDiscovery": "monolith.cluster.discovery.zookeeper.zk_discovery:ZKServiceDiscovery",
        "MLPServiceDiscovery": "monolith.cluster.discovery.mlp_discovery:MLPServiceDiscovery",
        "deregister_all": "monolith.cluster.discovery.consul.consul_discovery:deregister_all",
        "retry_with_socket_error": "monolith.cluster.discovery.consul.retry:retry_with_socket_error",
    },
    "monolith.native_training.session_run_hooks": {
        "before": "monolith.checkpoint.keep.tide_window:before",
        "TideStoppingHook": "monolith.train.hooks.tide:TideStoppingHook",
    },
    "monolith.native_training.summary.utils": {
        "create_summary_metadata": "monolith.observe.summary.event_files:create_summary_metadata",
    },
    "monolith.native_training.sync_training_hooks": {
        "SyncTrainingBarrierSaverListener": "monolith.train.ranks.sync_hooks:SyncTrainingBarrierSaverListener",
        "SyncTrainingForceDumpHook": "monolith.train.ranks.sync_hooks:SyncTrainingForceDumpHook",
        "SyncTrainingSaverControlHook": "monolith.train.ranks.sync_hooks:SyncTrainingSaverControlHook",
        "SyncTrainingInfoHook": "monolith.train.ranks.sync_hooks:SyncTrainingInfoHook",
        "ReqTimeControlDumpHook": "monolith.train.ranks.sync_hooks:ReqTimeControlDumpHook",
        "EofAwareTask": "monolith.train.ranks.sync_hooks:EofAwareTask",
    },
    "monolith.native_training.utils": {
        "to_snake_case": "monolith.model.hyper_params.spelling:to_snake_case",
        "params": "monolith.model.hyper_params.instantiable:params",
        "with_params": "monolith.model.hyper_params.instantiable:with_params",
        "set_metric_prefix": "monolith.observe.metric_prefix:set_metric_prefix",
        "get_metric_prefix": "monolith.observe.metric_prefix:get_metric_prefix",
    },
    "monolith.native_training.yarn_runtime": {
        "get_local_host": "monolith.cluster.platform.local_host:get_local_host",
        "maybe_kill_application": "monolith.cluster.platform.primus:maybe_kill_application",
        "maybe_finish_application": "monolith.cluster.platform.primus:maybe_finish_application",
        "create_primus_save_point": "monolith.cluster.platform.primus:create_primus_save_point",
    },
    "monolith.native_training.zk_utils": {
        "is_ipv6_only": "monolith.cluster.platform.zk_environment:is_ipv6_only",
        "default_zk_servers": "monolith.cluster.discovery.zookeeper.servers:default_zk_servers",
        "MonolithKazooClient": "monolith.cluster.discovery.zookeeper.client:MonolithKazooClient",
        "clear_zk_path": "monolith.cluster.discovery.zookeeper.client:clear_zk_path",
    },
    "monolith.path_utils": {
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
    "monolith.utils": {
        "CopyFile": "monolith.native_training.copying:copy_file",
        "CopyRecursively": "monolith.native_training.copying:copy_recursively",
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
}
