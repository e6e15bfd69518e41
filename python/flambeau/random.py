"""The process's random numbers: seed and state."""

import os as _os

from flambeau._C import Generator, default_generator

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def manual_seed(seed):
    """Sets the seed of the process's generator, starts from its first value, and returns it."""
    return default_generator.manual_seed(int(seed))


def seed():
    """Sets a seed drawn from the system's randomness and returns it."""
    value = int.from_bytes(_os.urandom(8), "little")
    default_generator.manual_seed(value)
    return value


def initial_seed():
    """The seed of the process's generator."""
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the process's generator as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Restores a state that `get_rng_state` returned."""
    default_generator.set_state(new_state)


class fork_rng:  # noqa: N801
    """Inside `with fork_rng():` random numbers are drawn; after it the state is what it was."""

    def __init__(self, devices=None, enabled=True):
        self._enabled = enabled

    def __enter__(self):
        self._state = get_rng_state() if self._enabled else None

    def __exit__(self, *_):
        if self._enabled:
            set_rng_state(self._state)
