"""Who may import whom, and what an import costs.

The sources are read, not run, so an import inside a function counts as much as one at the top.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks import imports as imports_between

ROOT = Path(__file__).parents[2]

# The arrows of the house: a room may use the rooms of the floors below its own, not its
# neighbours on the same floor.
FLOORS = (
    ("errors", "state", "declared", "extensions", "options", "packing"),
    ("losses",),
    ("backends",),
    ("kernels",),
    ("landmarks", "features"),
    ("scaling",),
    ("factorization",),
    ("memory",),
    ("encoding",),
    ("prediction",),
    ("learners",),
    ("engine", "adapters"),
    ("trained",),
    ("cli",),
    # Nobody knows an extension, not even another one: each may be deleted.
    tuple(sorted(path.parent.name for path in ROOT.glob("streamk/*/extension.toml"))),
)
GROUND = FLOORS[0]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# The engine knows sources and sinks by their protocols and opens them by URL, serving the logs that
# events are added to; encoding knows the forms in which sources give events.
CONNECTORS_BELOW = {
    "connectors",
    "connectors.base",
    "connectors.cells",
    "connectors.errors",
    "connectors.fields",
    "connectors.records",
    "connectors.registry",
}

# What the package itself offers at its front door, imported when it is called.
FRONT_DOOR = (("streamk", "streamk.learners.warming"), ("streamk", "streamk.trained"))

COMPILED = ("streamk.backends.numba_backend", "streamk.backends.jit")

# Where a library, or a part of one, may be imported at all, as prefixes of module names.
HOMES = {
    "capymoa": ("streamk.adapters.capymoa",),
    "confluent_kafka": ("connectors.kafka",),
    "cupy": ("streamk.backends",),
    "fastavro": ("connectors.schemas.avro",),
    "fsspec": ("streamk.object_store.store",),
    "google": ("connectors.schemas.protobuf",),
    "grpc_tools": (),
    "kafka": ("connectors.kafka",),
    "mlflow": ("streamk.mlflow",),
    "numba": ("streamk.backends",),
    "numba.core": ("streamk.backends.jit",),  # its private parts
    "numba.np": ("streamk.backends.jit",),
    "onnx": ("streamk.export.onnx",),
    "pickle": (),
    "pyarrow": ("connectors",),
    "prometheus_client": ("streamk.serving",),
    "ray": ("streamk.distributed",),
    "river": (
        "streamk.adapters.river",
        "streamk.cli.demo_run",
        "streamk.conformal.river",
        "streamk.drift.river",
        "streamk.engine.evaluation.river_metrics",
        "connectors.river",
    ),
    "shtab": ("streamk.completion",),
    "sklearn": ("streamk.adapters.sklearn", "streamk.landmarks.methods"),
    "starlette": ("streamk.serving",),
    "uvicorn": ("streamk.serving",),
}

# Libraries that importing streamk must not load, and the modules that exist for one of them.
HEAVY = (
    "capymoa",
    "confluent_kafka",
    "cupy",
    "fastavro",
    "fsspec",
    "google.protobuf",
    "grpc_tools",
    "kafka",
    "matplotlib",
    "mlflow",
    "numba",
    "onnx",
    "pyarrow",
    "ray",
    "rich",
    "river",
    "scipy.linalg",
    "scipy.sparse",
    "sklearn",
)
MAY_LOAD = {
    "connectors.kafka.confluent_client": "confluent_kafka",
    "connectors.kafka.python_client": "kafka",
    "connectors.schemas.avro": "fastavro",
    "streamk.adapters.capymoa": "capymoa",
    "streamk.adapters.river": "river",
    "streamk.conformal.river": "river",
    "streamk.drift.river": "river",
    "streamk.adapters.sklearn": "sklearn",
    "streamk.backends.jit": "numba",
    "streamk.backends.numba_backend": "numba",
}


def modules() -> dict[str, Path]:
    """Every module of the two packages, by its dotted name."""
    found = {}
    for package in ("streamk", "connectors"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def below(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def imports(source: ast.Module, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of everything a source imports, in functions too.

    ``from a import b`` is ``a.b`` when that is one of our modules, else ``a``.
    """
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: None if is_package else -1]
                package = package[: len(package) - node.level + 1]
                base = ".".join([*package, base] if base else package)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield node.lineno, name if name in MODULES else base
        elif isinstance(node, ast.Call) and node.args:
            function = node.func
            called = getattr(function, "attr", getattr(function, "id", ""))
            argument = node.args[0]
            if called in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield node.lineno, str(argument.value)


@cache
def all_imports() -> dict[str, list[tuple[int, str]]]:
    """Return lines and names of what each module imports."""
    return {
        module: list(imports(tree(module), module, is_package=path.stem == "__init__"))
        for module, path in MODULES.items()
    }


def room(module: str) -> str:
    """The room a module of streamk is in; the package itself counts as the ground floor."""
    parts = module.split(".")
    if len(parts) == 1:
        return "errors"
    return "cli" if parts[1] == "__main__" else parts[1]


def arrow_fault(importer: str, imported: str) -> str | None:
    """Say why `importer` may not import `imported`, or None when it may."""
    if below(importer, "connectors"):
        if below(imported, "streamk"):
            return "connectors knows nothing of streamk"
    elif below(imported, "connectors"):
        if room(importer) not in ("encoding", "engine", "cli", *FLOORS[-1]):
            return "only encoding, engine, cli and extensions know where events come from"
        if room(importer) in ("encoding", "engine", "serving") and imported not in CONNECTORS_BELOW:
            return "encoding and engine know only the protocols Source and Sink, no connector"
    elif below(imported, "streamk") and (importer, imported) not in FRONT_DOOR:
        source, target = room(importer), room(imported)
        if source != target and not (source in GROUND and target in GROUND):
            if FLOOR[target] > FLOOR[source]:
                return f"{target} is above {source}"
            if FLOOR[target] == FLOOR[source]:
                return f"{target} is beside {source}, not below it"
    if any(below(imported, one) for one in COMPILED) and not below(importer, "streamk.backends"):
        return "compiled loops are reached through streamk.backends"
    return library_fault(importer, imported)


def library_fault(importer: str, imported: str) -> str | None:
    """Say where the library that a module imports is at home, or None when it may be there."""
    for library, homes in HOMES.items():
        if below(imported, library) and not any(below(importer, home) for home in homes):
            return f"{library} may be imported in {' and '.join(homes) or 'no module'} only"
    return None


def test_every_room_has_a_floor() -> None:
    rooms = {room(module) for module in MODULES if below(module, "streamk")}
    assert rooms <= FLOOR.keys(), "a new room needs a floor in FLOORS"


def test_arrows_point_down() -> None:
    faults = [
        f"{MODULES[module].relative_to(ROOT)}:{line} imports {name}: {fault}"
        for module, found in all_imports().items()
        for line, name in found
        if (fault := arrow_fault(module, name))
    ]
    assert not faults, "\n".join(faults)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        module: {name for _, name in found if name in MODULES and name != module}
        for module, found in all_imports().items()
    }
    # A package's front door offers what its modules define; it is not what they stand on.
    for module, names in graph.items():
        graph[module] = {name for name in names if not below(module, name)}
    while leaves := [module for module, names in graph.items() if not names & graph.keys()]:
        for module in leaves:
            del graph[module]
    assert not graph, f"these stand on each other: {sorted(graph)}"


def test_no_rooms_import_each_other_in_a_circle() -> None:
    count, _, between = imports_between.arrows(ROOT)
    _, circle = imports_between.levels(set(count), between)
    assert not circle
    assert max(count[one] for one in count if one not in ("connectors", "backends")) <= 15


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("connectors.files", "streamk.errors"),
        ("streamk.losses", "streamk.kernels"),
        ("streamk.learners.common.base", "connectors.base"),
        ("streamk.engine.loop", "streamk.adapters.river"),
        ("streamk.engine.loop", "connectors.kafka"),
        ("streamk", "streamk.learners"),
        ("streamk.learners.multi_kernel.upkeep", "streamk.backends.numba_backend.experts"),
        ("streamk.state", "pickle"),
    ],
)
def test_a_wrong_arrow_is_found(importer: str, imported: str) -> None:
    assert arrow_fault(importer, imported)


def test_every_way_to_import_is_seen() -> None:
    source = """
import river.base
def f():
    from river import base
from ..errors import InvalidInput
from . import unknown
from streamk import state
importlib.import_module("ray")
"""
    new = ast.parse(source), "streamk.learners.new"
    found = [name for _, name in imports(*new, is_package=False)]
    assert sorted(found) == sorted(
        ["river.base", "river", "streamk.errors", "streamk.learners", "streamk.state", "ray"]
    )


def in_fresh_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_imports_load_nothing_heavy() -> None:
    light = [
        module
        for module in MODULES
        if not any(below(module, home) for home in MAY_LOAD) and not module.endswith("__main__")
    ]
    loaded = json.loads(
        in_fresh_process(
            f"""
import importlib, json, sys
loaded = {{}}
for module in {light!r}:
    before = set(sys.modules)
    importlib.import_module(module)
    new = set(sys.modules) - before
    new |= {{name.partition(".")[0] for name in new}}
    if heavy := sorted(new & {set(HEAVY)!r}):
        loaded[module] = heavy
print(json.dumps(loaded))
"""
        )
    )
    assert not loaded, "import these inside the function that needs them"


# --- names ----------------------------------------------------------------------------------------


@cache
def defined(module: str) -> set[str]:
    """Names that a module's top level binds."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.ImportFrom(module=other, names=[ast.alias(name="*")]):
                found |= defined(str(other))
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                found |= {alias.asname or alias.name for alias in names}
    return found


def test_what_benchmarks_and_demos_import_is_there() -> None:
    """Types are checked in the packages alone; elsewhere a name that has moved would hide."""
    faults = []
    for path in sorted(
        path for folder in ("benchmarks", "demos") for path in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
                continue
            if not node.module.startswith(("streamk", "connectors")):
                continue
            for alias in node.names:
                name, known = f"{node.module}.{alias.name}", node.module in MODULES
                there = defined(node.module) & {alias.name, "__getattr__"} if known else ()
                if name not in MODULES and not there:
                    faults.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert not faults, "\n".join(faults)


# Rooms that have a class of the same name for the same thing: estimators, and kernels on a device.
TWINS = {
    "streamk.adapters.capymoa": "streamk.adapters.capymoa",
    "streamk.adapters.river": "streamk.adapters.sklearn",
    "streamk.backends.cupy_backend": "streamk.backends.numba_backend",
}


def test_no_two_public_classes_have_one_name() -> None:
    homes: dict[str, set[str]] = {}
    for module in MODULES:
        room = next((TWINS[twin] for twin in TWINS if below(module, twin)), None)
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                # Of a twin the name counts in its own room alone.
                homes.setdefault(f"{room or ''}/{node.name}", set()).add(module)
    twice = {name.partition("/")[2]: at for name, at in homes.items() if len(at) > 1}
    assert not twice
