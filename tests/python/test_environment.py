"""What programs ask of their surroundings: versions, devices, libraries, determinism."""

import pathlib
import re
import tomllib
import warnings

import pytest

import flambeau as torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", torch.__version__)
    assert torch.version.__version__ == torch.__version__
    assert torch.version.cuda is torch.version.hip is torch.version.xpu is None
    assert torch.version.debug is False


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cmake = re.search(r"project\(flambeau VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert project["version"] == cmake[1] == torch.__version__


def test_no_accelerator():
    for module in (torch.cuda, torch.mps, torch.xpu, torch.accelerator):
        assert module.is_available() is False and module.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    assert torch.accelerator.current_accelerator(check_available=True) is None
    assert torch.backends.mps.is_available() is torch.backends.mps.is_built() is False
    assert torch.backends.mps.is_macos_or_newer(13, 0) is False
    assert torch.backends.cuda.is_built() is torch.backends.cudnn.is_available() is False
    assert torch.cuda.is_initialized() is torch.cuda.is_bf16_supported() is False
    assert torch.cuda.get_arch_list() == [] and torch.backends.cudnn.version() is None
    assert torch.backends.cudnn.is_acceptable(torch.ones(1)) is False
    assert torch.device("cuda" if torch.cuda.is_available() else "cpu") == torch.device("cpu")


def test_what_has_nothing_to_do_does_nothing():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for module in (torch.cuda, torch.mps, torch.xpu):
        assert module.manual_seed(1) is None
        with pytest.raises(ValueError):
            module.manual_seed("x")
    assert torch.cuda.manual_seed_all(1) is torch.xpu.manual_seed_all(1) is None
    assert torch.cuda.seed() is torch.cuda.seed_all() is torch.mps.seed() is None
    assert torch.cuda.empty_cache() is torch.accelerator.empty_cache() is None
    for module in (torch.cuda, torch.accelerator):
        assert module.memory_allocated() == module.max_memory_allocated() == 0
        assert module.memory_reserved() == module.max_memory_reserved() == 0
    assert torch.get_rng_state().tolist() == before.tolist()


@pytest.mark.parametrize(
    "name",
    "current_device init initial_seed synchronize get_device_name get_device_capability "
    "get_device_properties mem_get_info reset_peak_memory_stats".split(),
)
def test_what_needs_a_cuda_device(name):
    with pytest.raises(RuntimeError, match=rf"cuda\.{name}\(\): this build has no CUDA device"):
        getattr(torch.cuda, name)()


def test_what_needs_a_device():
    text = r"cuda.set_device\(\) for device 'cuda:1': .* available: cpu"
    with pytest.raises(RuntimeError, match=text):
        torch.cuda.set_device("cuda:1")
    for name, arguments in (("synchronize", ()), ("current_device_index", ())):
        with pytest.raises(RuntimeError, match=rf"accelerator.{name}\(\): .* no accelerator"):
            getattr(torch.accelerator, name)(*arguments)
    with pytest.raises(RuntimeError, match=r"accelerator.set_device_index\(\)"):
        torch.accelerator.set_device_index(0)
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)


def test_backends():
    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    for name in ("mkl", "mkldnn", "openmp"):
        assert getattr(torch.backends, name).is_available() is False


def test_settings_of_cudnn():
    cudnn = torch.backends.cudnn
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    defaults = (True, False, 10, False, True)
    assert tuple(getattr(cudnn, name) for name in names) == defaults
    with cudnn.flags(enabled=True, deterministic=True):
        assert cudnn.deterministic and cudnn.enabled
        assert cudnn.set_flags(_benchmark=True) == (True, False, 10, True, True)
        assert cudnn.benchmark
    assert tuple(getattr(cudnn, name) for name in names) == defaults
    with pytest.raises(RuntimeError, match="cudnn.benchmark: expected bool, not str"):
        cudnn.benchmark = "yes"
    with pytest.raises(RuntimeError, match="cudnn.benchmark_limit: expected int, not bool"):
        cudnn.benchmark_limit = True


def test_settings_of_cuda_products():
    matmul = torch.backends.cuda.matmul
    assert matmul.allow_tf32 is False
    matmul.allow_tf32 = True
    assert matmul.allow_tf32 is True
    matmul.allow_tf32 = False
    with pytest.raises(RuntimeError, match="matmul.allow_tf32: expected bool, not int"):
        matmul.allow_tf32 = 1


@pytest.fixture
def default_determinism():
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "number, word, deterministic, warn_only",
    [(0, "default", False, False), (1, "warn", True, True), (2, "error", True, False)],
)
def test_determinism(default_determinism, number, word, deterministic, warn_only):
    for mode in (number, word):
        torch.set_deterministic_debug_mode(mode)
        assert torch.are_deterministic_algorithms_enabled() is deterministic
        assert torch.is_deterministic_algorithms_warn_only_enabled() is warn_only
        assert torch.get_deterministic_debug_mode() == number
    torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
    assert torch.get_deterministic_debug_mode() == number


def test_wrong_determinism():
    with pytest.raises(TypeError, match="argument 'mode' must be bool, not int"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(TypeError, match="argument 'warn_only' must be bool, not str"):
        torch.use_deterministic_algorithms(True, warn_only="x")
    with pytest.raises(RuntimeError, match="debug_mode='x'; allowed: 'default', 'warn', 'error'"):
        torch.set_deterministic_debug_mode("x")
    with pytest.raises(RuntimeError, match="debug_mode=3; allowed: 0, 1, 2"):
        torch.set_deterministic_debug_mode(3)
    with pytest.raises(TypeError, match="debug_mode must be str or int, not float"):
        torch.set_deterministic_debug_mode(1.0)
    assert torch.get_deterministic_debug_mode() == 0


def test_precision_of_products():
    torch.manual_seed(0)
    a, b = torch.randn(9, 7), torch.randn(7, 5)
    assert torch.get_float32_matmul_precision() == "highest"
    expected = (a @ b).tolist()
    for precision in ("medium", "high", "highest"):
        torch.set_float32_matmul_precision(precision)
        assert torch.get_float32_matmul_precision() == precision
        assert (a @ b).tolist() == expected
    with pytest.warns(UserWarning, match="precision='low' changes nothing; allowed: 'highest'"):
        torch.set_float32_matmul_precision("low")
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(RuntimeError, match="precision must be a str, not int"):
        torch.set_float32_matmul_precision(3)


def test_interop_threads():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.set_num_interop_threads(4)
    assert torch.get_num_interop_threads() == 1
    with pytest.raises(RuntimeError, match="count=0; allowed: 1 or more"):
        torch.set_num_interop_threads(0)
    with pytest.raises(RuntimeError, match="expected an int, not str"):
        torch.set_num_interop_threads("2")
