"""The shape of the package: each outside library has one home, and imports point inward."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from infinite_memory.contracts.registry import MODULES, NATIVE, list_specs

PACKAGE = Path(__file__).resolve().parent.parent.parent / "infinite_memory"

HOMES = {
    "pymongo": ("store",),
    "motor": ("store",),
    "bson": ("store",),
    "faiss": ("index/vector/faiss_search.py",),
    "tantivy": ("index/text", "text/stemmer.py"),
    "pymilvus": ("index/milvus",),
    "dateparser": ("time_expressions",),
    "py3langid": ("time_expressions", "embedding/languages.py"),
    "yaml": ("transfer/formats/front_matter.py",),
    "apscheduler": ("jobs/wakeups.py",),
    "onnxruntime": ("embedding",),
    "morpheme": ("embedding/model_tokenizer.py",),
    "tokenizers": ("embedding/model_tokenizer.py",),
    "huggingface_hub": ("embedding",),
    "sentence_transformers": ("embedding",),
    "torch": ("embedding",),
    "mcp": ("transports/http",),
    "starlette": ("transports/http",),
    "uvicorn": ("transports/http",),
    "httpx2": ("llm",),
    "fastapi": ("transports/http/api",),
    "limits": ("transports/http/api",),
    "prometheus_client": ("transports/http/api",),
    "jinja2": ("transports/http/page",),
    "langgraph": ("adapters/langgraph.py",),
    "langchain_core": ("adapters/langchain.py",),
}
INWARD = {
    "models.py": ("normalization",),
    "normalization.py": (),
    "loop_watchdog.py": (),
    "clock.py": (),
    "tasks.py": (),
    "file_work.py": (),
    "errors.py": ("redaction",),
    "redaction.py": (),
    "settings.py": (),
    "text": ("text", "models", "normalization"),
    "store": ("store", "clock", "models", "errors", "platform_files", "redaction"),
    "mongod": ("mongod", "paths", "platform_files", "errors"),
    "embedding": ("embedding", "models", "errors", "paths", "daemon.ipc", "malloc_tuning"),
    "index": (
        "index",
        "text",
        "store",
        "embedding",
        "gc_tuning",
        "malloc_tuning",
        "tasks",
        "models",
        "errors",
        "redaction",
    ),
    "llm": ("llm", "platform_files", "settings", "errors"),
    "time_expressions": ("time_expressions", "models", "normalization", "errors"),
    "sdk": ("sdk", "daemon.handshake", "daemon.ipc", "paths", "proofs", "errors"),
    "adapters": ("adapters", "sdk", "normalization"),
    "engine": (
        "engine",
        "index",
        "text",
        "store",
        "embedding",
        "time_expressions",
        "clock",
        "models",
        "errors",
        "config",
        "settings",
    ),
    # What backup, transfer and jobs work with is handed in by `bootstrap`; they name its types.
    "backup": (
        "backup",
        "platform_files",
        "transfer.serialization",
        "file_work",
        "engine",
        "index.sync",
        "store",
        "clock",
        "models",
        "errors",
        "config",
        "settings",
    ),
    "transfer": (
        "transfer",
        "backup.folder",
        "file_work",
        "engine",
        "index.embedding_backlog",
        "index.sync",
        "embedding.service",
        "store",
        "clock",
        "tasks",
        "models",
        "errors",
        "config",
        "settings",
    ),
    "jobs": (
        "jobs",
        "backup",
        "transfer",
        "engine",
        "index.sync",
        "embedding.service",
        "text",
        "llm",
        "store",
        "clock",
        "tasks",
        "models",
        "errors",
        "config",
        "settings",
    ),
    # `client` talks to the daemon, `service` is a part of it.
    "hooks": (
        "hooks",
        "text",
        "normalization",
        "contracts.native.serializers",
        "contracts.timestamps",
        "engine",
        "llm",
        "daemon.ipc",
        "clock",
        "models",
        "errors",
        "config",
        "settings",
        "paths",
        "platform_files",
        "platform_processes",
        "zones",
    ),
    "contracts": (
        "contracts",
        "jobs",
        "transfer",
        "backup",
        "engine",
        "text",
        "llm",
        "store",
        "time_expressions",
        "clock",
        "models",
        "normalization",
        "errors",
        "config",
        "settings",
        "loop_watchdog",
    ),
    "transports": ("transports", "contracts", "errors", "loop_watchdog"),
    "transports/http": (
        "transports",
        "contracts",
        "file_work",
        "daemon.ipc",
        "paths",
        "platform_files",
        "proofs",
        "errors",
        "settings",
    ),
    "transports/http/api": (
        "transports",
        "contracts",
        "jobs.administration",
        "file_work",
        "engine",
        "llm",
        "store",
        "clock",
        "loop_watchdog",
        "models",
        "proofs",
        "config",
        "errors",
    ),
    # A front end on the engine and the contracts, as the API beside it.
    "transports/http/page": (
        "transports",
        "contracts",
        "transfer.import_folders",
        "transfer.formats",
        "paths",
        "platform_files",
        "engine",
        "models",
        "errors",
        "config",
        "settings",
    ),
}


@functools.cache
def parse(file: Path) -> ast.Module:
    """Return the syntax tree of *file*, which is read once for all tests."""
    return ast.parse(file.read_text("utf-8"))


@functools.cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return every node of that tree."""
    return tuple(ast.walk(parse(file)))


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """Let go of the trees after the last test of this file: other tests would pay for a million nodes at each collection of garbage."""
    yield
    for function in (parse, nodes, imports):
        function.cache_clear()


@functools.cache
def imports(file: Path) -> tuple[str, ...]:
    """Return the name of every module that *file* imports, wherever in it."""
    return tuple(read_imports(file))


def read_imports(file: Path) -> Iterator[str]:
    """Yield them."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "infinite_memory":
            yield from (
                f"{node.module}.{alias.name}" for alias in node.names if alias.name.islower() and alias.name.isalpha()
            )
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def sources(part: str = "") -> list[Path]:
    """Return the package's files below *part*, without those of a part that has rules of its own."""
    path = PACKAGE / part
    if path.is_file():
        return [path]
    inner = [PACKAGE / other for other in INWARD if part and other.startswith(part + "/")]
    return sorted(file for file in path.rglob("*.py") if not any(folder in file.parents for folder in inner))


def is_below(module: str, part: str) -> bool:
    """True if *module* is *part* or lies in it."""
    return module == part or module.startswith(part + ".")


@pytest.mark.parametrize(("library", "homes"), HOMES.items())
def test_an_outside_library_has_one_home(library: str, homes: tuple[str, ...]) -> None:
    for file in sources():
        if any(name.split(".")[0] == library for name in imports(file)):
            path = file.relative_to(PACKAGE).as_posix()
            assert path.startswith(homes), f"{path} imports {library}"


@pytest.mark.parametrize(("part", "allowed"), INWARD.items())
def test_imports_point_inward(part: str, allowed: tuple[str, ...]) -> None:
    for file in sources(part):
        for name in imports(file):
            package, _, module = name.partition(".")
            if package == "infinite_memory" and module:
                assert any(is_below(module, other) for other in allowed), f"{file.relative_to(PACKAGE)} imports {name}"


COMPOSERS = ("engine/", "bootstrap.py")
"""Who knows what the engine is made of."""


def dotted_names(file: Path) -> Iterator[list[str]]:
    """Return the parts of every chain of attributes in *file*; a call or an await in between is left out."""
    for node in nodes(file):
        if not isinstance(node, ast.Attribute):
            continue
        parts: list[str] = []
        inner: ast.expr | None = node
        while inner is not None:
            match inner:
                case ast.Attribute(value=value, attr=attr):
                    parts.insert(0, attr)
                    inner = value
                case ast.Call(func=inner) | ast.Await(value=inner):
                    pass
                case ast.Name(id=name):
                    parts.insert(0, name)
                    inner = None
                case _:
                    inner = None
        if parts:
            yield parts


def reaches_into_engine(parts: Sequence[str]) -> bool:
    """True if a chain of attributes goes through an engine to something that is private to it."""
    engines = [number for number, part in enumerate(parts) if part.lstrip("_") == "engine"]
    return any(part.startswith("_") or part in ("parts", "services") for part in parts[min(engines, default=99) + 1 :])


def test_nothing_outside_touches_the_engines_collaborators() -> None:
    assert reaches_into_engine(["call", "engine", "parts", "store"])
    assert reaches_into_engine(["self", "_engine", "memories", "_store"])
    assert not reaches_into_engine(["self", "_engine", "memories", "get"])
    for file in sources():
        path = file.relative_to(PACKAGE).as_posix()
        if path.startswith(COMPOSERS):
            continue
        for parts in dotted_names(file):
            assert not reaches_into_engine(parts), f"{path}: {'.'.join(parts)}"
        for node in nodes(file):
            if isinstance(node, ast.ImportFrom) and node.module == "infinite_memory.engine.engine":
                assert [one.name for one in node.names] == ["Engine"], f"{path} imports what the engine is made of"


def test_the_engine_shows_use_cases_that_hide_what_they_work_with() -> None:
    """`Engine` and its use cases keep their collaborators in private attributes, and inherit from nothing of ours."""
    [engine] = [node for node in parse(PACKAGE / "engine/engine.py").body if getattr(node, "name", "") == "Engine"]
    made = {
        target.attr: node.value.func.id
        for node in ast.walk(engine)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }
    assert {"memories", "recall", "forget", "scopes", "graph", "maintenance", "stats"} <= made.keys()
    for file in sources("engine"):
        for node in parse(file).body:
            if isinstance(node, ast.ClassDef) and node.name in {*made.values(), "Engine"}:
                assert {ast.unparse(one) for one in node.bases} <= {"ApiTokens"}, node.name
                public = {
                    one.attr
                    for one in ast.walk(node)
                    if isinstance(one, ast.Attribute)
                    and isinstance(one.ctx, ast.Store)
                    and not one.attr.startswith("_")
                }
                assert public <= ({"visibility", *made} if node.name == "Engine" else set()), node.name


NORMALIZERS = ("unicodedata.normalize", "unicodedata.is_normalized")


def test_texts_are_normalized_by_one_module() -> None:
    """``unicodedata`` is quadratic in combining marks, and holds the interpreter's lock meanwhile."""
    for file in sources():
        if file.name != "normalization.py":
            assert not any(
                (isinstance(node, ast.Attribute) and ast.unparse(node).startswith(NORMALIZERS))
                or (isinstance(node, ast.ImportFrom) and node.module == "unicodedata")
                for node in nodes(file)
            ), file.relative_to(PACKAGE)


def test_every_folder_of_contracts_is_one_line_of_the_registry() -> None:
    folders = {file.parent.name for file in (PACKAGE / "contracts").glob("*/__init__.py")}
    assert {f"infinite_memory.contracts.{folder}.spec" for folder in folders} == set(MODULES)


@pytest.mark.parametrize("part", ["cli", "daemon", "bootstrap.py", "config.py", "transports", "transports/http"])
def test_a_contract_is_known_to_the_registry_alone(part: str) -> None:
    """Only the native contract, which `call` and `help` speak, is named elsewhere; ``http/api`` has a table of its own to unite."""
    names = {spec.name for spec in list_specs()} - {NATIVE}
    folders = {module.removesuffix(".spec").partition(".")[2] for module in MODULES if f".{NATIVE}." not in module}
    for file in sources(part):
        texts = {node.value for node in nodes(file) if isinstance(node, ast.Constant)}
        assert not names & texts, f"{file.relative_to(PACKAGE)} knows {names & texts}"
        for name in imports(file):
            assert not any(is_below(name.partition(".")[2], folder) for folder in folders), f"{file} imports {name}"


def test_no_module_of_contracts_is_too_short_to_be_opened_or_too_long_to_be_read() -> None:
    for file in sources("contracts"):
        lines = len(file.read_text("utf-8").splitlines())
        assert lines <= 400, file
        # A spec has the same name in every folder, however little a contract says of itself.
        assert lines >= 40 or file.name in ("__init__.py", "spec.py"), file


SMALL_AND_ALONE = {
    "__main__.py": "Python runs it",
    "contracts/agentmem/spec.py": "a spec has the same name in every contract",
    "time_expressions/day_parts.py": "facts of languages, beside those of other kinds",
    "transports/http/api/visibility.py": "what a token lets its bearer see: one place, found by its name",
}
"""Modules under 40 lines that at most one other module imports, and why each stands by itself."""
ONE_A_FILE = ("transfer/formats/", "transports/http/page/views/")
"""Folders where a file is one of many of a kind (docs/extending.md), however short it is."""


def test_a_small_module_that_one_other_uses_lives_in_that_one() -> None:
    files = {"infinite_memory." + ".".join(file.relative_to(PACKAGE).with_suffix("").parts): file for file in sources()}
    users: dict[str, set[Path]] = {name: set() for name in files}
    for file in sources():
        for node in nodes(file):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            within = node.module if isinstance(node, ast.ImportFrom) else None
            for name in (within, *names, *(f"{within}.{name}" for name in names)):
                if name in users:
                    users[name].add(file)
    small = {
        file.relative_to(PACKAGE).as_posix()
        for name, file in files.items()
        if file.name != "__init__.py" and len(file.read_text("utf-8").splitlines()) < 40 and len(users[name]) <= 1
        and not file.relative_to(PACKAGE).as_posix().startswith(ONE_A_FILE)
    }  # fmt: skip
    assert small == set(SMALL_AND_ALONE)


def test_every_module_says_what_it_is_for() -> None:
    for file in sources():
        assert ast.get_docstring(parse(file)), file


FORBIDDEN_CLASSES = {
    "App", "Asked", "Catalog", "Changes", "Checking", "Draft", "Figures", "Forgotten", "Grant", "Kept", "KeyMap", "Listing",
    "Names", "Newest", "Outlet", "Parts", "Pipe", "Row", "Rows", "SaveTimes", "ScopeBook", "Sidecar", "Sight", "Surroundings",
    "TextFeed", "Unanswered", "Upkeep", "Watch", "Where", "Wording",
}  # fmt: skip
"""Names that the glossary of CONTRIBUTING.md replaced."""
FORBIDDEN_CONSTANT = re.compile(r"_?(MOST|LEAST)_\w+|WIDEN|SLACK")
FORBIDDEN_FUNCTION = re.compile(r"_?\w+_out")
PLAIN_VERBS = {"_carry_out", "_copy_out", "_leave_out", "spelled_out"}
MAX_LINES = 400


def test_tasks_are_not_waited_for_in_groups() -> None:
    """Python 3.11.2, which Debian 12 has, raises a group from `except*`, and where a task of a group fails leaves its caller cancelled."""
    for file in sorted(PACKAGE.rglob("*.py")):
        assert not any(isinstance(node, ast.TryStar) for node in nodes(file)), file
        assert not any(names[-1] == "TaskGroup" for names in dotted_names(file)), file


def test_names_follow_the_glossary() -> None:
    for file in sources():
        for node in nodes(file):
            match node:
                case ast.ClassDef(name=name):
                    assert name not in FORBIDDEN_CLASSES, f"{file.relative_to(PACKAGE)}: {name}"
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    assert name in PLAIN_VERBS or not FORBIDDEN_FUNCTION.fullmatch(name), (
                        f"{file.relative_to(PACKAGE)}: {name}"
                    )
        for node in parse(file).body:
            for target in node.targets if isinstance(node, ast.Assign) else []:
                for name in (x.id for x in ast.walk(target) if isinstance(x, ast.Name)):
                    assert not FORBIDDEN_CONSTANT.fullmatch(name), f"{file.relative_to(PACKAGE)}: {name}"


FORBIDDEN_VARIABLES = {"one", "found", "made", "given", "wanted", "kept", "known", "left", "place", "at", "problem"}
RENAMED_PARTS = ("adapters", "daemon", "embedding", "index/vector", "llm", "mongod", "sdk", "time_expressions")
"""Where no variable has such a name any more; add a part when its names are changed."""


@pytest.mark.parametrize("part", RENAMED_PARTS)
def test_variables_are_named_for_what_they_hold(part: str) -> None:
    for file in sources(part):
        for node in nodes(file):
            match node:
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)):
                    assert name not in FORBIDDEN_VARIABLES, f"{file.relative_to(PACKAGE)}: {name}"


def test_no_module_is_too_long_to_be_read_in_a_sitting() -> None:
    for file in sources():
        assert len(file.read_text("utf-8").splitlines()) <= MAX_LINES, file


def test_the_words_of_the_glossary_stand_in_the_code() -> None:
    """Every name in code type of the glossary's first column is a class, a module or a constant of the package."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text("utf-8")
    glossary = text.split("## Glossary")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in glossary.splitlines() if line.startswith("| `")]
    names = {name for row in rows for name in re.findall(r"`([A-Z][a-z]\w+|[A-Z]{2}[A-Za-z]+Index|[a-z_]+)`", row)}
    defined = {file.stem for file in sources()}
    for file in sources():
        body = parse(file).body
        defined |= {
            node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        }
    assert len(names) > 30
    assert names - defined <= {"get_x", "to_x", "serialize_x"}, names - defined
