"""Optimizers: each step is one fused operator over the parameters of a group."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .adaptive import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "ASGD",
    "Adadelta",
    "Adagrad",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "Adam",
    "AdamW",
    "Optimizer",
    "lr_scheduler",
]
