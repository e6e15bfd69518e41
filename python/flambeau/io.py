"""Files of tensors: safetensors, NumPy's npy and npz, PNG images.

`path` is a str or a path object. Files are replaced in one step: a reader sees the old or the new
content.
"""

from flambeau import _C

__all__ = [
    "load_npy",
    "load_npz",
    "load_safetensors",
    "save_npy",
    "save_npz",
    "save_png",
    "save_safetensors",
]


def load_safetensors(path, *, return_metadata=False):
    """Returns the file's tensors by name; with `return_metadata` also its dict of texts."""
    tensors, metadata = _C._load_safetensors(path)
    return (tensors, metadata) if return_metadata else tensors


def save_safetensors(tensors, path, *, metadata=None):
    """Writes a dict of tensors, and of texts as `metadata`."""
    _C._save_safetensors(tensors, path, metadata)


def load_npy(path):
    """Returns the tensor of a .npy file."""
    return _C._load_npy(path)


def save_npy(tensor, path):
    """Writes one tensor as a .npy file."""
    _C._save_npy(tensor, path)


def load_npz(path):
    """Returns the tensors of a .npz file by name."""
    return _C._load_npz(path)


def save_npz(tensors, path, *, compressed=False):
    """Writes a dict of tensors as a .npz file."""
    _C._save_npz(tensors, path, compressed)


def save_png(image, path):
    """Writes a uint8 tensor of sizes [height, width] or [height, width, 1 or 3] as a PNG image."""
    _C._save_png(image, path)
