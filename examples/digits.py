"""Trains a two-layer perceptron on handwritten digits (MNIST; tools/fetch_mnist.py fetches them).

Writes digits.safetensors, the weights, and digits.png, a grid of test digits with the network's
answer and confidence, right ones in green.
"""

import argparse
import pathlib
import sys
import time

from digit_grid import draw_grid

import flambeau as torch
from flambeau import nn
from flambeau.io import load_npz, load_safetensors, save_png, save_safetensors
from flambeau.utils.data import DataLoader, TensorDataset

DATA = pathlib.Path(__file__).resolve().parent.parent / ".data"


def make_model():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))


@torch.no_grad()
def accuracy(model, images, labels):
    return (model(images).argmax(1) == labels).float().mean().item()


def show(epoch, done, total, loss, correct, seconds):
    bar = "#" * (24 * done // total)
    print(
        f"\repoch {epoch} [{bar:<24}] loss {loss:.4f}  accuracy {100 * correct / done:5.2f} %  "
        f"{done / seconds:8.0f} images/s",
        end="",
        flush=True,
    )


def train(model, loader, epochs, lr):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    steps = epochs * len(loader)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    total = len(loader.dataset)
    for epoch in range(1, epochs + 1):
        start, shown = time.perf_counter(), 0.0
        done = correct = 0
        for images, labels in loader:
            scores = model(images)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            done += len(labels)
            correct += (scores.argmax(1) == labels).sum().item()
            seconds = time.perf_counter() - start
            if seconds - shown > 0.1 or done == total:
                show(epoch, done, total, loss.item(), correct, seconds)
                shown = seconds
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--out", type=pathlib.Path, default=DATA)
    options = parser.parse_args()

    torch.manual_seed(0)
    digits = load_npz(DATA / "mnist.npz")
    train_set = TensorDataset(digits["train_images"], digits["train_labels"])
    loader = DataLoader(train_set, batch_size=options.batch_size, shuffle=True)
    model = make_model()
    train(model, loader, options.epochs, options.lr)

    save_safetensors(model.state_dict(), options.out / "digits.safetensors")
    reloaded = make_model()
    reloaded.load_state_dict(load_safetensors(options.out / "digits.safetensors"))
    images, labels = digits["test_images"], digits["test_labels"]
    with torch.no_grad():
        if not (reloaded(images) == model(images)).all():
            sys.exit("the reloaded weights give other scores")
    result = accuracy(reloaded, images, labels)
    print(f"test accuracy {100 * result:.2f} %")

    with torch.no_grad():
        confidence, answers = torch.softmax(reloaded(images[:60]), 1).max(1)
    save_png(draw_grid(images[:60], labels[:60], answers, confidence), options.out / "digits.png")
    print(f"wrote {options.out / 'digits.safetensors'} and {options.out / 'digits.png'}")
    if result < 0.975:
        sys.exit(f"expected a test accuracy of at least 97.5 %, got {100 * result:.2f} %")


if __name__ == "__main__":
    main()
