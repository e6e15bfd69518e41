"""Trains a convolutional network on handwritten digits (MNIST; tools/fetch_mnist.py fetches them).

Writes, beside the data, digits.safetensors, the weights; digits.png, a grid of test digits with the
network's answer and confidence, right ones in green; curves.png, loss and accuracy over time; and
checkpoint.pt while it trains. Ctrl-C saves the checkpoint and leaves; --resume goes on from it, to
the same bits as without a stop.
"""

import argparse
import pathlib
import sys
import time

from curves import draw_curves
from digit_grid import draw_grid

import flambeau as torch
from flambeau import nn
from flambeau.io import load_npz, load_safetensors, save_png, save_safetensors
from flambeau.utils.data import DataLoader, TensorDataset

DATA = pathlib.Path(__file__).resolve().parent.parent / ".data"


def make_model():
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(128, 10),
    )


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    hits = sum(
        (model(images[i : i + 1000]).argmax(1) == labels[i : i + 1000]).sum().item()
        for i in range(0, len(images), 1000)
    )
    model.train()
    return hits / len(images)


def show(epoch, done, total, loss, correct, speed):
    bar = "#" * (24 * done // total)
    print(
        f"\repoch {epoch} [{bar:<24}] loss {loss:.4f}  accuracy {100 * correct / done:5.2f} %  "
        f"{speed:8.0f} images/s",
        end="",
        flush=True,
    )


class Training:
    """A model in training and all that a checkpoint of it holds."""

    def __init__(self, train_set, test_set, epochs, batch_size, lr):
        self.loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
        self.test_set = test_set
        self.epochs = epochs
        self.model = make_model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        steps = epochs * len(self.loader)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)
        self.epoch = self.batch = self.correct = 0  # batches of this epoch that are done
        self.order = None  # the generator's state when the epoch began: it decides the order
        self.history = {"train": [], "test": []}

    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "generator": torch.get_rng_state(),
            "order": self.order,
            "progress": (self.epoch, self.batch, self.correct),
            "history": self.history,
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.order = state["order"]
        self.epoch, self.batch, self.correct = state["progress"]
        self.history = state["history"]
        torch.set_rng_state(state["generator"])

    def step(self, images, labels):
        scores = self.model(images)
        loss = nn.functional.cross_entropy(scores, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        hits = (scores.argmax(1) == labels).sum().item()
        self.batch += 1
        self.correct += hits
        at = self.epoch + self.batch / len(self.loader)
        self.history["train"].append((at, loss.item(), hits / len(labels)))
        return loss

    def run_epoch(self):
        if self.batch == 0:
            self.order = torch.get_rng_state()
            skipped, batches = 0, iter(self.loader)
        else:
            # The same order again, then the generator as it was at the stop.
            now = torch.get_rng_state()
            torch.set_rng_state(self.order)
            skipped, batches = self.batch, iter(self.loader)
            for _ in range(skipped):
                next(batches)
            torch.set_rng_state(now)
        start, shown, total = time.perf_counter(), 0.0, len(self.loader.dataset)
        size = self.loader.batch_size
        for images, labels in batches:
            loss = self.step(images, labels)
            done, seconds = min(self.batch * size, total), time.perf_counter() - start
            if seconds - shown > 0.1 or self.batch == len(self.loader):
                speed = (done - skipped * size) / seconds
                show(self.epoch + 1, done, total, loss.item(), self.correct, speed)
                shown = seconds
        self.epoch, self.batch, self.correct = self.epoch + 1, 0, 0
        result = accuracy(self.model, *self.test_set)
        self.history["test"].append((self.epoch, result))
        print(f"  test {100 * result:.2f} %")

    def run(self, checkpoint):
        try:
            while self.epoch < self.epochs:
                self.run_epoch()
                torch.save(self.state_dict(), checkpoint)
        except KeyboardInterrupt:
            torch.save(self.state_dict(), checkpoint)
            print(f"\nstopped; {checkpoint} has the state: --resume goes on")
            sys.exit(130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--out", type=pathlib.Path, default=DATA)
    parser.add_argument("--resume", action="store_true", help="go on from OUT/checkpoint.pt")
    options = parser.parse_args()

    torch.manual_seed(0)
    digits = load_npz(DATA / "mnist.npz")
    images, labels = digits["test_images"], digits["test_labels"]
    train_set = TensorDataset(digits["train_images"], digits["train_labels"])
    training = Training(train_set, (images, labels), options.epochs, options.batch_size, options.lr)
    checkpoint = options.out / "checkpoint.pt"
    if options.resume:
        training.load_state_dict(torch.load(checkpoint))
    training.run(checkpoint)

    model = training.model
    save_safetensors(model.state_dict(), options.out / "digits.safetensors")
    reloaded = make_model()
    reloaded.load_state_dict(load_safetensors(options.out / "digits.safetensors"))
    result = accuracy(reloaded, images, labels)
    if result != accuracy(model, images, labels):
        sys.exit("the reloaded weights give another accuracy")
    print(f"test accuracy {100 * result:.2f} %")

    reloaded.eval()
    with torch.no_grad():
        confidence, answers = torch.softmax(reloaded(images[:60]), 1).max(1)
    save_png(draw_grid(images[:60], labels[:60], answers, confidence), options.out / "digits.png")
    save_png(draw_curves(training.history, options.epochs), options.out / "curves.png")
    print(f"wrote digits.safetensors, digits.png, curves.png and checkpoint.pt to {options.out}")
    if result < 0.99:
        sys.exit(f"expected a test accuracy of at least 99.0 %, got {100 * result:.2f} %")


if __name__ == "__main__":
    main()
