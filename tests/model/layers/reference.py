"""What layers are compared with, in NumPy."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    shares = np.exp(x - x.max(axis, keepdims=True))
    return shares / shares.sum(axis, keepdims=True)


def normed(kernel, lengths):
    """A kernel whose columns have these lengths."""
    return kernel / np.maximum(np.linalg.norm(kernel, axis=0), 1e-3) * lengths


def dense(x, w, prefix=""):
    """x·W + b with columns of a learned length."""
    return x @ normed(w[prefix + "kernel"], w[prefix + "trainable_kernel_norm"]) + w[prefix + "bias"]
