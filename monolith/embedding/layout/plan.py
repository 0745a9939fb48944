"""What `FeatureConfigs` say about features, tables and layouts, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monolith._core import native
from monolith.protos.example_pb2 import FIRSTN, FeatureConfig, FeatureConfigs, OutConfig, OutType, PoolingType

LayoutShape = tuple[int, ...]

_POOLINGS = {"SUM": "sum", "MEAN": "mean", "FIRSTN": "first_n"}


@dataclass(frozen=True, kw_only=True, eq=False)
class LayoutPlan:
    """Features, tables and layouts, each in the order of their names, and the native plan made of them."""

    features: tuple[str, ...]

    tables: tuple[str, ...]

    table_of: tuple[int, ...]
    """Number of the table of each feature."""

    row_dims: tuple[int, ...]
    """Floats of a row of each feature."""

    layouts: tuple[tuple[str, tuple[LayoutShape, ...]], ...]
    """Name and shapes of each layout; -1 stands for the batch."""

    native_plan: native.FusedLayoutPlan

    @classmethod
    def from_configs(cls, configs: FeatureConfigs) -> LayoutPlan:
        """Return the plan of these configs.

        Raises:
            ValueError: A layout names a feature that is not there, or its slices do not make its shapes.
        """
        features = tuple(sorted(configs.feature_configs))
        by_name = {name: configs.feature_configs[name] for name in features}
        tables = tuple(sorted({_table_of(name, config) for name, config in by_name.items()}))
        table_of = tuple(tables.index(config.table) for config in by_name.values())
        row_dims = tuple(_row_dim(name, config) for name, config in by_name.items())
        plan = native.FusedLayoutPlan(list(zip(features, table_of, row_dims, strict=True)), len(tables))
        layouts = []
        for name in sorted(configs.out_configs):
            out = configs.out_configs[name]
            shapes = [list(shape.dims) for shape in out.shape]
            plan.add_layout(name, OutType.Name(out.out_type), _slices(name, out, by_name), shapes)
            layouts.append((name, tuple(map(tuple, shapes))))
        return cls(
            features=features,
            tables=tables,
            table_of=table_of,
            row_dims=row_dims,
            layouts=tuple(layouts),
            native_plan=plan,
        )

    def block_names(self, ps_num: int) -> list[str]:
        """Return the names "table:ps" of all blocks, in order.

        >>> from monolith.protos.example_pb2 import FeatureConfig
        >>> plan = LayoutPlan.from_configs(
        ...     FeatureConfigs(feature_configs={"a": FeatureConfig(table="t", slice_dims=[1])})
        ... )
        >>> plan.block_names(2)
        ['t:0', 't:1']
        """
        return [f"{table}:{ps}" for table in self.tables for ps in range(ps_num)]

    def output_shapes(self, batch_size: int) -> list[LayoutShape]:
        """Return the shapes of all tensors, layout by layout, for a batch."""
        return [
            (batch_size if shape[0] == -1 else shape[0], *shape[1:]) for _, shapes in self.layouts for shape in shapes
        ]


def _table_of(name: str, config: FeatureConfig) -> str:
    if not config.table:
        raise ValueError(f"feature {name!r} has no table; name one in its config")
    return config.table


def _row_dim(name: str, config: FeatureConfig) -> int:
    if not config.slice_dims or min(config.slice_dims) <= 0:
        raise ValueError(f"feature {name!r}: slice_dims must be positive, got {list(config.slice_dims)}")
    if config.pooling_type == FIRSTN and config.max_sequence_length <= 0:
        raise ValueError(
            f"feature {name!r}: FIRSTN needs a positive max_sequence_length, got {config.max_sequence_length}"
        )
    return sum(config.slice_dims)


def _slices(layout: str, out: OutConfig, features: Mapping[str, FeatureConfig]) -> list[tuple[int, int, int, str, int]]:
    """Return the slices as the native plan takes them; pooling is the feature's, whatever the slice says."""
    numbers = {name: number for number, name in enumerate(features)}
    slices = []
    for one in out.slice_configs:
        config = features.get(one.feature_name)
        if config is None:
            raise ValueError(
                f"layout {layout!r}: there is no feature {one.feature_name!r}; the configs have {sorted(features)}"
            )
        pooling = _POOLINGS[PoolingType.Name(config.pooling_type)]
        slices.append((numbers[one.feature_name], one.start, one.end, pooling, config.max_sequence_length))
    return slices
