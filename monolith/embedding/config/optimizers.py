"""The rules of csrc/optim as frozen dataclasses; a default that is DECLARED stands in C++."""

from dataclasses import field

from monolith.embedding.config.rules import (
    DECLARED,
    ClippedOptimizer,
    DelayCompensation,
    Optimizer,
    StochasticRoundingFloat16OptimizerWrapper,
)

__all__ = [
    "AdaGradWithGroupLassoOptimizer",
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamomOptimizer",
    "AmsgradOptimizer",
    "BatchSoftmaxOptimizer",
    "ClippedOptimizer",
    "DelayCompensation",
    "DynamicWdAdagradOptimizer",
    "FTRLWithGroupSparsityOptimizer",
    "FtrlOptimizer",
    "MomentumOptimizer",
    "MovingAverageOptimizer",
    "Optimizer",
    "RmspropOptimizer",
    "RmspropV2Optimizer",
    "RowwiseAdagradOptimizer",
    "SgdOptimizer",
    "StochasticRoundingFloat16OptimizerWrapper",
]


class SgdOptimizer(Optimizer):
    """Plain gradient descent."""

    learning_rate: float | None = None
    warmup_steps: int | None = None
    kind = "sgd"


class AdagradOptimizer(Optimizer):
    """Divides each step by the root of the summed squared gradients."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    hessian_compression_times: int = 1
    warmup_steps: int = 0
    weight_decay_factor: float = DECLARED
    kind = "adagrad"


class RowwiseAdagradOptimizer(Optimizer):
    """Adagrad that keeps one float per segment instead of one per weight."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    epsilon: float = DECLARED
    weight_decay_factor: float = DECLARED
    kind = "rowwise_adagrad"


class DynamicWdAdagradOptimizer(Optimizer):
    """Adagrad whose weight decay may be kept apart from the gradient and may change while training."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    hessian_compression_times: int = 1
    warmup_steps: int = 0
    weight_decay_factor: float = DECLARED
    # On here and off in the rule, as in the original's Python and message.
    decouple_weight_decay: bool = True
    enable_dynamic_wd: bool = True
    flip_direction: bool = True
    dynamic_wd_temperature: float = DECLARED
    kind = "dynamic_wd_adagrad"


class AdadeltaOptimizer(Optimizer):
    """Scales each step by the ratio of past steps to past gradients."""

    learning_rate: float | None = None
    weight_decay_factor: float = DECLARED
    averaging_ratio: float = DECLARED
    epsilon: float = DECLARED
    warmup_steps: int = 0
    kind = "adadelta"


class AdamOptimizer(Optimizer):
    """Adam, bias-corrected by the number of updates of each row."""

    learning_rate: float | None = None
    beta1: float = DECLARED
    beta2: float = DECLARED
    use_beta1_warmup: bool = False
    weight_decay_factor: float = DECLARED
    use_nesterov: bool = DECLARED
    epsilon: float = DECLARED
    warmup_steps: int = 0
    kind = "adam"


class AmsgradOptimizer(Optimizer):
    """Adam whose second moment never shrinks."""

    learning_rate: float | None = None
    beta1: float = DECLARED
    beta2: float = DECLARED
    weight_decay_factor: float = DECLARED
    use_nesterov: bool = DECLARED
    epsilon: float = DECLARED
    warmup_steps: int = 0
    kind = "amsgrad"


class AdamomOptimizer(Optimizer):
    """Momentum divided by the root of the decayed mean of squared gradients."""

    learning_rate: float | None = None
    ada_decay: float = DECLARED
    mom_decay: float = DECLARED
    epsilon: float = DECLARED
    weight_decay_factor: float = DECLARED
    kind = "adamom"


class BatchSoftmaxOptimizer(Optimizer):
    """Tracks the mean number of steps between two sightings of an id; the segment has one float."""

    learning_rate: float | None = None
    kind = "batch_softmax"


class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum."""

    learning_rate: float | None = None
    weight_decay_factor: float = DECLARED
    use_nesterov: bool = DECLARED
    momentum: float = DECLARED
    warmup_steps: int = 0
    kind = "momentum"


class MovingAverageOptimizer(Optimizer):
    """Keeps a moving average of what arrives as "gradient"; there is no learning rate."""

    momentum: float = DECLARED
    kind = "moving_average"


class RmspropOptimizer(Optimizer):
    """Divides each step by 1 + the root of the decayed mean of squared gradients."""

    learning_rate: float | None = None
    weight_decay_factor: float = DECLARED
    momentum: float = DECLARED
    kind = "rmsprop"


class RmspropV2Optimizer(Optimizer):
    """Divides each step by 1 + the root of the decayed sum of squared gradients."""

    learning_rate: float | None = None
    weight_decay_factor: float = DECLARED
    momentum: float = DECLARED
    kind = "rmspropv2"


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader: weights with little evidence are exactly 0."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    beta: float | None = None
    warmup_steps: int = 0
    l1_regularization: float | None = field(default=None, metadata={"proto": "l1_regularization_strength"})
    l2_regularization: float | None = field(default=None, metadata={"proto": "l2_regularization_strength"})
    kind = "ftrl"


class FTRLWithGroupSparsityOptimizer(Optimizer):
    """FTRL that sets a whole segment to 0 or none of it."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    beta: float | None = None
    warmup_steps: int = 0
    l1_regularization: float | None = field(default=None, metadata={"proto": "l1_regularization_strength"})
    l2_regularization: float | None = field(default=None, metadata={"proto": "l2_regularization_strength"})
    kind = "group_ftrl"


class AdaGradWithGroupLassoOptimizer(Optimizer):
    """Adagrad that sets a whole segment to 0 or none of it."""

    learning_rate: float | None = None
    beta: float | None = None
    initial_accumulator_value: float | None = None
    l2_regularization: float | None = field(default=None, metadata={"proto": "l2_regularization_strength"})
    weight_decay_factor: float = DECLARED
    warmup_steps: int = 0
    kind = "group_adagrad"
