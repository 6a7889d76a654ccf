"""The benchmark of the GPU, on the host: its kernels compiled by the C compiler, CuPy by NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuda_host import HostDevice
from cuda_kit import GPU_LACKS, backend_at

from benchmarks import common, gpu
from streamk import backends
from streamk.kernels import base


class StandIn:
    """What the benchmark takes of the module `cupy`."""

    __version__ = "0"

    def __init__(self, device: HostDevice) -> None:
        self._xp = device.xp
        self.asarray, self.asnumpy = device.put, device.get
        properties = {"name": b"none", "totalGlobalMem": 1}
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(synchronize=lambda: None),
            runtime=SimpleNamespace(
                getDeviceProperties=lambda _: properties,
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13020,
            ),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, select = backend_at("host"), backends.select

    def selected(name: str = "auto") -> Any:
        return backend if name == "cupy" else select(name)

    for module in (backends, base):
        monkeypatch.setattr(module, "select", selected)
    monkeypatch.setattr(backends, "select_devices", lambda _=None: [backend])
    module = StandIn(HostDevice())
    monkeypatch.setattr(gpu, "cupy", lambda: module)
    monkeypatch.setattr(gpu, "torch", lambda: None)


@pytest.mark.nightly
@pytest.mark.usefixtures("cupy")
def test_all_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.run(["--quick", "--out", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["results"]
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 104
    for case in found["prediction"]["cases"]:
        assert min(figure["low"] for figure in case["us"].values()) > 0


@pytest.mark.skipif(GPU_LACKS is None, reason="there is a GPU here")
def test_without_a_gpu_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert common.main(gpu.run, []) == 2
    assert "backend 'cupy' needs" in capsys.readouterr().err
