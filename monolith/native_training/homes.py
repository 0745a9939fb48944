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
    "monolith.native_training.mlp_utils": {},
    "monolith.native_training.model": {
        "TestFFMModel": "monolith.model.zoo.ffm:TestFFMModel",
        "FFMParams": "monolith.model.zoo.ffm:FFMParams",
    },
    "monolith.native_training.net_utils": {},
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
    },
    "monolith.native_training.session_run_hooks": {
        "before": "monolith.checkpoint.keep.tide_window:before",
        "TideStoppingHook": "monolith.train.hooks.tide:TideStoppingHook",
    },
    "monolith.native_training.summary.utils": {
        "create_summary_metadata": "monolith.observe.summary.event_files:create_summary_metadata",
    },
    "monolith.native_training.sync_training_hooks": {},
    "monolith.native_training.utils": {
        "to_snake_case": "monolith.model.hyper_params.spelling:to_snake_case",
        "params": "monolith.model.hyper_params.instantiable:params",
        "with_params": "monolith.model.hyper_params.instantiable:with_params",
        "set_metric_prefix": "monolith.observe.metric_prefix:set_metric_prefix",
        "get_metric_prefix": "monolith.observe.metric_prefix:get_metric_prefix",
    },
    "monolith.native_training.yarn_runtime": {},
    "monolith.native_training.zk_utils": {},
    "monolith.path_utils": {
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
    "monolith.tpu_runner": {},
    "monolith.utils": {
        "CopyFile": "monolith.native_training.copying:copy_file",
        "CopyRecursively": "monolith.native_training.copying:copy_recursively",
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
}
