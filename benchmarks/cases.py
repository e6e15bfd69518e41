"""The measured cases, and a program that times one library on them.

usage: cases.py MODULE [NAME ...]   prints one JSON object {case: seconds}; names that start with an
underscore describe the run. MODULE is any library with PyTorch's names; both libraries run this
same text, each in its own process.
"""

import importlib
import json
import sys
import time

THREADS = 2
REPEATS = 5
MIN_SECONDS = 0.04  # of one repeat


def one_element_add(torch):
    a, b = torch.randn(1), torch.randn(1)
    with torch.no_grad():
        yield lambda: a + b


def one_element_add_recorded(torch):
    a, b = torch.randn(1, requires_grad=True), torch.randn(1)
    yield lambda: a + b


def matmul(size):
    def case(torch):
        a, b = torch.randn(size, size), torch.randn(size, size)
        with torch.no_grad():
            yield lambda: a @ b

    return case


def on_four_million(call):
    """`call(torch, x, y)` on two float32 tensors [4096, 1024] without gradients."""

    def case(torch):
        x, y = torch.randn(4096, 1024), torch.randn(4096, 1024)
        with torch.no_grad():
            yield lambda: call(torch, x, y)

    return case


def layer_norm(torch):
    x, weight, bias = torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024)
    with torch.no_grad():
        yield lambda: torch.nn.functional.layer_norm(x, (1024,), weight, bias)


def cnn_training_step(torch):
    """The step of examples/digits.py: a batch of 128, AdamW."""
    nn = torch.nn
    model = nn.Sequential(
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
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = torch.randn(128, 1, 28, 28), torch.randint(0, 10, (128,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    yield step


def lstm_training_step(torch):
    """Two layers, 256 wide, 50 steps of a batch of 64, SGD."""
    model = torch.nn.LSTM(256, 256, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    x = torch.randn(50, 64, 256)

    def step():
        optimizer.zero_grad()
        model(x)[0].square().mean().backward()
        optimizer.step()

    yield step


def conv2d(*shape, **options):
    """A convolution: images, channels, height, width of the input, channels of the result."""

    def case(torch):
        n, c, h, w, o = shape
        x, weight, bias = torch.randn(n, c, h, w), torch.randn(o, c, 3, 3), torch.randn(o)
        with torch.no_grad():
            yield lambda: torch.nn.functional.conv2d(x, weight, bias, padding=1, **options)

    return case


def mlp_training_step(torch):
    """A perceptron 784-512-10, a batch of 128, AdamW."""
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = torch.randn(128, 784), torch.randint(0, 10, (128,))

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    yield step


# A case is a generator that yields the call to time; what follows the yield ends its scope.
CASES = {
    "add, 1 element": one_element_add,
    "add, 1 element, gradient recorded": one_element_add_recorded,
    "matmul f32 256": matmul(256),
    "matmul f32 1024": matmul(1024),
    "softmax f32 4096x1024": on_four_million(lambda t, x, y: t.softmax(x, -1)),
    "layer_norm f32 4096x1024": layer_norm,
    "add f32 4M": on_four_million(lambda t, x, y: x + y),
    "exp f32 4M": on_four_million(lambda t, x, y: t.exp(x)),
    "tanh f32 4M": on_four_million(lambda t, x, y: t.tanh(x)),
    "gelu f32 4M": on_four_million(lambda t, x, y: t.nn.functional.gelu(x)),
    "sum f32 4M": on_four_million(lambda t, x, y: x.sum()),
    "conv2d f32 64x32x28x28, 64 channels": conv2d(64, 32, 28, 28, 64),
    "conv2d f32 8x64x56x56, 64 channels": conv2d(8, 64, 56, 56, 64),
    "training step, perceptron": mlp_training_step,
    "training step, CNN of the demo": cnn_training_step,
    "training step, LSTM": lstm_training_step,
}
IMPORT = "import"


def seconds_of(call):
    """The fastest of several repeats, in seconds a call."""
    call()
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    count = max(1, int(MIN_SECONDS / once))
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def main():
    module, names = sys.argv[1], sys.argv[2:]
    start = time.perf_counter()
    torch = importlib.import_module(module)
    results = {IMPORT: time.perf_counter() - start}
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    for name, case in CASES.items():
        if not names or name in names:
            for call in case(torch):
                results[name] = seconds_of(call)
    results["_version"] = f"{module} {torch.__version__}"
    print(json.dumps(results))


if __name__ == "__main__":
    main()
