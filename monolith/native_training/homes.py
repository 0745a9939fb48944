"""The table: original module path -> {name: "home.module:attribute"}.

A path with no names yet can be imported all the same. `EVERYTHING` stands for all public names of its home, which is
loaded as soon as the path is imported.
"""

from typing import Final

EVERYTHING: Final = "*"

HOMES: Final[dict[str, dict[str, str]]] = {
    "monolith.native_training.cpu_training": {},
    "monolith.native_training.estimator": {},
    "monolith.native_training.mlp_utils": {},
    "monolith.native_training.model": {},
    "monolith.native_training.nested_tensors": {
        "NestedTensors": "monolith.tensors.nested_tensors:NestedTensors",
    },
    "monolith.native_training.net_utils": {},
    "monolith.native_training.optimizers.adamom": {},
    "monolith.native_training.optimizers.rmsprop": {},
    "monolith.native_training.optimizers.shampoo": {},
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
    "monolith.native_training.runner_utils": {},
    "monolith.native_training.runtime.ops.gen_monolith_ops": {EVERYTHING: "monolith._core:native"},
    "monolith.native_training.save_utils": {},
    "monolith.native_training.service_discovery": {},
    "monolith.native_training.session_run_hooks": {},
    "monolith.native_training.signal_utils": {},
    "monolith.native_training.static_reshape_op": {
        "static_reshape": "monolith.tensors.static_reshape:static_reshape",
        "StaticReshapeNBuilder": "monolith.tensors.static_reshape:StaticReshapeNBuilder",
    },
    "monolith.native_training.summary.summary_ops": {},
    "monolith.native_training.summary.utils": {},
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
    },
    "monolith.native_training.touched_key_set_ops": {
        "TOUCHED_KEY_SET_CAPACITY": "monolith.embedding.touched_key_set:TOUCHED_KEY_SET_CAPACITY",
        "TOUCHED_KEY_SET_CONCURRENCY_LEVEL": "monolith.embedding.touched_key_set:TOUCHED_KEY_SET_CONCURRENCY_LEVEL",
        "create_touched_key_set": "monolith.embedding.touched_key_set:create_touched_key_set",
        "TouchedKeySet": "monolith.embedding.touched_key_set:TouchedKeySet",
    },
    "monolith.native_training.utils": {},
    "monolith.native_training.variables": {},
    "monolith.native_training.yarn_runtime": {},
    "monolith.native_training.zk_utils": {},
    "monolith.path_utils": {
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
    "monolith.tpu_runner": {},
    "monolith.utils": {
        "find_main": "monolith.native_training.base_directory:find_main",
        "get_libops_path": "monolith.native_training.base_directory:get_libops_path",
    },
}
