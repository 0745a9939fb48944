"""The XLA device of this process. No other module imports torch_xla."""

from importlib import import_module

from monolith.train.device.device_state import Device


def xla_device() -> Device:
    """Return the device that torch_xla chooses for this process; an ImportError says how to do without."""
    try:
        xla = import_module("torch_xla")
    except ImportError as error:
        raise ImportError(
            "training on a TPU needs the package torch_xla in the version of torch, and it cannot be imported "
            f"({error}); install it on the machine that has the TPU, or pass --cpu-test to train on the processor"
        ) from error
    return Device(xla.device(), xla.sync)
