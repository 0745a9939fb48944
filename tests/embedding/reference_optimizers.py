"""Row optimizers in a few NumPy lines each: what the compiled kernels must agree with.

Each function takes one row (weights, state by name, gradient) and changes weights and state in place. Arithmetic is
float32, as in the kernels; only the order of sums over a row may differ.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Row = np.ndarray[Any, np.dtype[np.float32]]
State = dict[str, Any]
Params = dict[str, float]
Step = Callable[[Row, State, Row, Params, np.float32, int], None]

F = np.float32


def zeros(dim: int) -> Row:
    """Return a row of zeros."""
    return np.zeros(dim, F)


STATE_PARTS = {
    "adagrad": "norm",
    "rowwise_adagrad": "sum",
    "adadelta": "accum update",
    "adam": "m v power1 power2",
    "amsgrad": "m v vhat power1 power2",
    "adamom": "m v c",
    "batch_softmax": "last",
    "ftrl": "norm z",
    "group_ftrl": "norm z",
    "group_adagrad": "sum",
    "dynamic_wd_adagrad": "norm last",
    "momentum": "n",
    "rmsprop": "n",
    "rmspropv2": "n",
}


def first_state(kind: str, p: Params, dim: int) -> State:
    """Return the state of a new row, in the order in which the kernels store it."""
    start = F(p.get("initial_accumulator_value", 0.0))
    special: State = {
        "norm": np.full(dim, start),
        "sum": start,
        "c": F(0),
        "last": np.int64(0),
        "power1": F(p.get("beta1", 0)),
        "power2": F(p.get("beta2", 0)),
    }
    return {part: special.get(part, zeros(dim)) for part in STATE_PARTS.get(kind, "").split()}


def flatten(state: State) -> Row:
    """Return the state as the floats the kernels store; a step number keeps its bits in two floats."""
    parts = [v.reshape(1).view(F) if isinstance(v, np.int64) else np.atleast_1d(F(v)) for v in state.values()]
    return np.concatenate(parts) if parts else zeros(0)


def decayed(w: Row, g: Row, p: Params) -> Row:
    """Return the gradient with coupled weight decay."""
    return g + F(p["weight_decay_factor"]) * w


def sgd(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Step downhill."""
    w -= lr * g


def adagrad(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Divide by the root of all squared gradients so far."""
    g = decayed(w, g, p)
    s["norm"] += g * g
    w -= lr / np.sqrt(s["norm"]) * g


def rowwise_adagrad(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Divide by the root of one sum of mean squares."""
    g = decayed(w, g, p)
    s["sum"] += np.mean(g * g, dtype=F)
    w -= lr * g / (np.sqrt(s["sum"]) + F(p["epsilon"]))


def adadelta(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Scale by the ratio of past moves to past gradients."""
    g, r, eps = decayed(w, g, p), F(p["averaging_ratio"]), F(p["epsilon"])
    s["accum"] = r * s["accum"] + (F(1) - r) * g * g
    delta = np.sqrt(s["update"] + eps) / np.sqrt(s["accum"] + eps) * g
    w -= lr * delta
    s["update"] = r * s["update"] + (F(1) - r) * delta * delta


def adam(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Adam, and AMSGrad where the state has a vhat."""
    g, b1, b2 = decayed(w, g, p), F(p["beta1"]), F(p["beta2"])
    rate = lr * np.sqrt(F(1) - s["power2"]) / (F(1) - s["power1"])
    s["m"] = b1 * s["m"] + (F(1) - b1) * g
    s["v"] = b2 * s["v"] + (F(1) - b2) * g * g
    v = s["v"]
    if "vhat" in s:
        v = s["vhat"] = np.maximum(s["vhat"], s["v"])
    top = b1 * s["m"] + (F(1) - b1) * g if p["use_nesterov"] else s["m"]
    w -= rate * top / (np.sqrt(v) + F(p["epsilon"]))
    s["power1"] *= b1
    s["power2"] *= b2


def adamom(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Momentum over the root of a decayed mean of squares."""
    g, ada, mom = decayed(w, g, p), F(p["ada_decay"]), F(p["mom_decay"])
    s["m"] = mom * s["m"] + (F(1) - mom) * g
    s["v"] = ada * s["v"] + g * g
    s["c"] = ada * s["c"] + F(1)
    w -= lr * s["m"] / np.sqrt(s["v"] / s["c"] + F(p["epsilon"]))


def batch_softmax(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Average the interval between sightings."""
    w[:] = (F(1) - lr) * w + lr * F(step - s["last"])
    s["last"] = np.int64(step)


def ftrl_sums(w: Row, s: State, g: Row, lr: np.float32) -> None:
    """Add one gradient to FTRL's two sums."""
    norm = s["norm"] + g * g
    s["z"] += g - (np.sqrt(norm) - np.sqrt(s["norm"])) / lr * w
    s["norm"] = norm


def ftrl(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Solve for each weight with an L1 pull of its own."""
    ftrl_sums(w, s, g, lr)
    l1, l2 = F(p["l1_regularization_strength"]), F(p["l2_regularization_strength"])
    bottom = np.sqrt(s["norm"]) + F(p["beta"]) + l2 * lr
    w[:] = np.where(np.abs(s["z"]) <= l1, F(0), lr * (np.sign(s["z"]) * l1 - s["z"]) / bottom)


def group_ftrl(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Solve for the row with one L1 pull on its length."""
    ftrl_sums(w, s, g, lr)
    l1, l2 = F(p["l1_regularization_strength"]), F(p["l2_regularization_strength"])
    length = np.sqrt(np.sum(s["z"] * s["z"], dtype=F))
    bottom = F(p["beta"]) + np.sqrt(s["norm"]) + l2 * lr
    w[:] = lr * s["z"] * ((l1 - length) / length) / bottom if length > l1 else F(0)


def group_adagrad(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Adagrad on the largest squared gradient, then a pull on the row's length."""
    g, l2 = decayed(w, g, p), F(p["l2_regularization_strength"])
    s["sum"] += np.max(g * g)
    rate = lr / (F(p["beta"]) + np.sqrt(s["sum"]))
    z = g - w / rate
    length = np.sqrt(np.sum(z * z, dtype=F))
    w[:] = -rate * (length - l2) / length * z if length > l2 else F(0)


def dynamic_wd_adagrad(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Adagrad whose decay depends on how long the row was not seen."""
    decay, t = F(p["weight_decay_factor"]), F(p["dynamic_wd_temperature"])
    if p["enable_dynamic_wd"]:
        k = F(max(step - int(s["last"]), 1) if s["last"] else 1)
        decay = decay * ((t if p["flip_direction"] else k) / (k + t))
    s["last"] = np.int64(step)
    pull = F(0)
    if p["decouple_weight_decay"]:
        pull = lr * decay
    else:
        g = g + decay * w
    s["norm"] += g * g
    w[:] = w - lr / np.sqrt(s["norm"]) * g - pull * w


def momentum(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Heavy ball, or Nesterov's look ahead."""
    mu, old = F(p["momentum"]), s["n"]
    s["n"] = mu * old - lr * decayed(w, g, p)
    w += (F(1) + mu) * s["n"] - mu * old if p["use_nesterov"] else s["n"]


def moving_average(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Average the observed values."""
    w[:] = F(p["momentum"]) * w + (F(1) - F(p["momentum"])) * g


def rmsprop(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Divide by one plus the root of an average; in double precision."""
    g64, mu = g.astype(np.float64) + float(F(p["weight_decay_factor"])) * w, float(F(p["momentum"]))
    n = mu * s["n"].astype(np.float64) + (1 - mu) * g64 * g64
    s["n"] = n.astype(F)
    w[:] = (w - float(lr) / (np.sqrt(n) + 1) * g64).astype(F)


def rmspropv2(w: Row, s: State, g: Row, p: Params, lr: np.float32, step: int) -> None:
    """Divide by one plus the root of a decayed sum."""
    g = decayed(w, g, p)
    s["n"] = F(p["momentum"]) * s["n"] + g * g
    w -= lr / (np.sqrt(s["n"]) + F(1)) * g


STEPS: dict[str, Step] = {
    "sgd": sgd,
    "adagrad": adagrad,
    "rowwise_adagrad": rowwise_adagrad,
    "adadelta": adadelta,
    "adam": adam,
    "amsgrad": adam,
    "adamom": adamom,
    "batch_softmax": batch_softmax,
    "ftrl": ftrl,
    "group_ftrl": group_ftrl,
    "group_adagrad": group_adagrad,
    "dynamic_wd_adagrad": dynamic_wd_adagrad,
    "momentum": momentum,
    "rmsprop": rmsprop,
    "rmspropv2": rmspropv2,
    "moving_average": moving_average,
}
