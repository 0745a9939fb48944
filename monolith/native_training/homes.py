"""The table: original module path -> {name: "home.module:attribute"}.

A path without names can still be imported. `EVERYTHING` stands for all public names of its home, which is
loaded as soon as the path is imported.
"""

from typing import Final

EVERYTHING: Final = "*"

HOMES: Final[dict[str, dict[str, str]]] = {
    "monolith.native_training.cpu_training": {
        "CpuTraining": "monolith.train.cpu_training:CpuTraining",
        "get_req_time": "monolith.train.cpu_training:get_req_time",
        "local_train": "monolith.train.cpu_training:local_train",
        "local_train_internal": "monolith.train.cpu_training:local_train_internal",
        "CpuTrainingConfig": "monolith.train.config.training_config:CpuTrainingConfig",
        "DistributedCpuTrainingConfig": "monolith.train.config.training_config:DistributedCpuTrainingConfig",
        "is_chief": "monolith.train.config.training_config:is_chief",
    },
    "monolith.native_training.estimator": {
        "EstimatorSpec": "monolith.model.spec:EstimatorSpec",
        "RunConfig": "monolith.train.config.run_config:RunConfig",
        "Estimator": "monolith.train.estimator:Estimator",
    },
    "monolith.native_training.mlp_utils": {},
    "monolith.native_training.model": {
        "TestFFMModel": "monolith.model.zoo.ffm:TestFFMModel",
        "FFMParams": "monolith.model.zoo.ffm:FFMParams",
    },
    "monolith.native_training.nested_tensors": {
        "NestedTensors": "monolith.tensors.nested_tensors:NestedTensors",
    },
    "monolith.native_training.net_utils": {},
    "monolith.native_training.optimizers.adamom": {"AdamomOptimizer": "monolith.optim.adamom:DenseAdamomOptimizer"},
    "monolith.native_training.optimizers.rmsprop": {"RmspropOptimizer": "monolith.optim.rmsprop:DenseRmspropOptimizer"},
    "monolith.native_training.optimizers.shampoo": {
        "eigen_inverse_root": "monolith.optim.shampoo:eigen_inverse_root",
        "apply_sparse_precond": "monolith.optim.shampoo:apply_sparse_precond",
        "ShampooOptimizer": "monolith.optim.shampoo:ShampooOptimizer",
    },
    "monolith.native_training.prefetch_queue": {
        "AsyncFunctionMgr": "monolith.data.prefetch.async_functions:AsyncFunctionMgr",
        "AsyncPushHook": "monolith.data.prefetch.async_functions:AsyncPushHook",
        "EnqueueHook": "monolith.data.prefetch.prefetch_queue:EnqueueHook",
        "MultiQueueRunner": "monolith.data.prefetch.prefetch_queue:MultiQueueRunner",
        "enqueue_dicts_with_queue_return": "monolith.data.prefetch.prefetch_queue:enqueue_dicts_with_queue_return",
    },
    "monolith.native_training.ps_benchmark": {},
    "monolith.native_training.ragged_utils": {
        "fused_value_rowids": "monolith.tensors.ragged:fused_value_rowids",
    },
    "monolith.native_training.remote_predict_ops": {},
    "monolith.native_training.runner_utils": {
        "isabs": "monolith.checkpoint.format.state_files.path_forms:isabs",
        "gen_get_checkpoint_state": "monolith.checkpoint.format.state_files.restore_choice:gen_get_checkpoint_state",
        "ContainerType": "monolith.train.config.runner_config:ContainerType",
        "RunnerConfig": "monolith.train.config.runner_config:RunnerConfig",
    },
    "monolith.native_training.runtime.ops.gen_monolith_ops": {EVERYTHING: "monolith._core:native"},
    "monolith.native_training.save_utils": {
        "get_latest_checkpoint_state": (
            "monolith.checkpoint.format.state_files.latest_state:get_latest_checkpoint_state"
        ),
        "get_monolith_checkpoint_state": (
            "monolith.checkpoint.format.state_files.monolith_file:get_monolith_checkpoint_state"
        ),
        "SaveHelper": "monolith.checkpoint.format.state_files.checkpoint_names:SaveHelper",
        "NoFirstSaveCheckpointSaverHook": "monolith.train.hooks.checkpoint_saver:NoFirstSaveCheckpointSaverHook",
        "PsMonitor": "monolith.checkpoint.shards.partial_recovery:PsMonitor",
        "PartialRecoverySaver": "monolith.checkpoint.shards.partial_recovery:PartialRecoverySaver",
        "SecondOrStepTimerWithTideSetting": "monolith.checkpoint.keep.save_timer:SecondOrStepTimerWithTideSetting",
    },
    "monolith.native_training.service_discovery": {
        "ServiceDiscoveryType": "monolith.train.config.runner_config:ServiceDiscoveryType",
    },
    "monolith.native_training.session_run_hooks": {
        "before": "monolith.train.hooks.tide:before",
        "tide_available_now": "monolith.train.hooks.tide:tide_available_now",
        "CustomGlobalStepWaiterHook": "monolith.train.hooks.tide:CustomGlobalStepWaiterHook",
        "TideStoppingHook": "monolith.train.hooks.tide:TideStoppingHook",
    },
    # Importing it installs the handler, as the specification has it.
    "monolith.native_training.signal_utils": {EVERYTHING: "monolith.observe:stack_traces_on_import"},
    "monolith.native_training.static_reshape_op": {
        "static_reshape": "monolith.tensors.static_reshape:static_reshape",
        "StaticReshapeNBuilder": "monolith.tensors.static_reshape:StaticReshapeNBuilder",
    },
    "monolith.native_training.summary.summary_ops": {
        "nas_data": "monolith.observe.summary.plugin_data:nas_data",
        "feature_insight_data": "monolith.observe.summary.plugin_data:feature_insight_data",
    },
    "monolith.native_training.summary.utils": {
        "SummaryType": "monolith.observe.summary.head:SummaryType",
        "prepare_head": "monolith.observe.summary.head:prepare_head",
        "PLUGIN_NAME": "monolith.observe.summary.head:PLUGIN_NAME",
        "MONOLITH_NAS_DATA": "monolith.observe.summary.head:MONOLITH_NAS_DATA",
        "MONOLITH_FI_DATA": "monolith.observe.summary.head:MONOLITH_FI_DATA",
        "KTYPE": "monolith.observe.summary.head:KTYPE",
        "KMETA": "monolith.observe.summary.head:KMETA",
        "KDATA": "monolith.observe.summary.head:KDATA",
        "create_summary_metadata": "monolith.observe.summary.event_files:create_summary_metadata",
        "get_nas_weight_json": "monolith.checkpoint.inspect.nas_weights:get_nas_weight_json",
    },
    "monolith.native_training.sync_hooks": {},
    "monolith.native_training.sync_training_hooks": {},
    "monolith.native_training.tensor_utils": {
        "maybe_squeeze_3d_tensor": "monolith.tensors.packing:maybe_squeeze_3d_tensor",
        "merge_dicts": "monolith.tensors.packing:merge_dicts",
        "pack_tensors": "monolith.tensors.packing:pack_tensors",
        "pack_typed_keyed_tensors": "monolith.tensors.packing:pack_typed_keyed_tensors",
        "split_tensors_with_type": "monolith.tensors.packing:split_tensors_with_type",
        "unpack_packed_tensors": "monolith.tensors.packing:unpack_packed_tensors",
        "unpack_tensors": "monolith.tensors.packing:unpack_tensors",
    },
    "monolith.native_training.test_utils": {
        "generate_test_hash_table_config": "monolith.embedding.entry:generate_test_hash_table_config",
        "profile_it": "monolith.observe.profiling:profile_it",
    },
    "monolith.native_training.touched_key_set_ops": {
        "TOUCHED_KEY_SET_CAPACITY": "monolith.embedding.touched_key_set:TOUCHED_KEY_SET_CAPACITY",
        "TOUCHED_KEY_SET_CONCURRENCY_LEVEL": "monolith.embedding.touched_key_set:TOUCHED_KEY_SET_CONCURRENCY_LEVEL",
        "create_touched_key_set": "monolith.embedding.touched_key_set:create_touched_key_set",
        "TouchedKeySet": "monolith.embedding.touched_key_set:TouchedKeySet",
    },
    "monolith.native_training.utils": {
        "PS_JOB_NAME": "monolith.parallel.ps_names:PS_JOB_NAME",
        "ps_device": "monolith.parallel.ps_names:ps_device",
        "propagate_back_gradients": "monolith.optim.propagation:propagate_back_gradients",
        "propagate_back_dict_gradients": "monolith.optim.propagation:propagate_back_dict_gradients",
        "get_ndim": "monolith.tensors.shapes:get_ndim",
        "int_shape": "monolith.tensors.shapes:int_shape",
        "extend_as_list": "monolith.model.hyper_params.lists:extend_as_list",
        "check_list": "monolith.model.hyper_params.lists:check_list",
        "to_list": "monolith.model.hyper_params.lists:to_list",
        "to_snake_case": "monolith.model.hyper_params.spelling:to_snake_case",
        "params": "monolith.model.hyper_params.instantiable:params",
        "with_params": "monolith.model.hyper_params.instantiable:with_params",
        "check_ops_dependence": "monolith.tensors.dependence:check_ops_dependence",
        "get_test_tmp_dir": "monolith.checkpoint.format.file_names:get_test_tmp_dir",
        "get_debugging_info_file_name": "monolith.checkpoint.format.file_names:get_debugging_info_file_name",
        "get_meta_graph_file_name": "monolith.checkpoint.format.file_names:get_meta_graph_file_name",
        "add_to_collections": "monolith.model.collections:add_to_collections",
        "get_collection": "monolith.model.collections:get_collection",
        "set_metric_prefix": "monolith.observe.metric_prefix:set_metric_prefix",
        "get_metric_prefix": "monolith.observe.metric_prefix:get_metric_prefix",
    },
    "monolith.native_training.variables": {},
    "monolith.native_training.yarn_runtime": {},
    "monolith.native_training.zk_utils": {},
    "monolith.path_utils": {
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
    "monolith.tpu_runner": {},
    "monolith.utils": {
        "CopyFile": "monolith.checkpoint.keep.copying:copy_file",
        "CopyRecursively": "monolith.checkpoint.keep.copying:copy_recursively",
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
}
