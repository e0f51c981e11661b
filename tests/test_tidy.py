"""The rules of the house, as tests. A rule that matters is here; its failure says what to do.

Design section 2, in the order in which words may know of each other:

    words      units bounds foreign errors endings lakes locks whole untrusted web toml topology dataset (experiment)
    analysts   timeline ← diagnosis ← report          makers  readers (sim, testbed, recorder)
    doors      cli  __main__  __init__                nobody imports a door
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "tailrace"
CORE = ROOT / "crates" / "core" / "src"

WORDS = (
    *(
        "units",
        "bounds",
        "foreign",
        "errors",
        "endings",
        "lakes",
        "locks",
        "whole",
        "untrusted",
        "web",
        "toml",
        "topology",
        "dataset",
    ),
    "experiment",
)
ANALYSTS = ("timeline", "diagnosis", "report")
MAKERS = ("readers", "sim", "load", "testbed", "recorder", "export", "anonymise", "join", "containers")
DOORS = (
    *("cli", "__main__", "__init__"),
    *("score", "twin", "advise", "study", "reproduce", "sweep", "watch", "gate", "mcp", "engines", "hub"),
)
ENGINE = "_core"

MAY_IMPORT: dict[str, set[str]] = {
    **{word: set(WORDS[:i]) for i, word in enumerate(WORDS)},
    **{analyst: {*WORDS, *ANALYSTS[:i], ENGINE} - {"experiment"} for i, analyst in enumerate(ANALYSTS)},
    **{maker: {*WORDS, ENGINE} for maker in MAKERS},
    "dataset": {*WORDS[: WORDS.index("dataset")], ENGINE},
    **{door: {*WORDS, *ANALYSTS, *MAKERS, *DOORS, ENGINE} for door in DOORS},
}

# A notebook asks a value itself how it looks (`_repr_html_`), and only the report knows.
AGAINST_THE_GRAIN = {("python/tailrace/diagnosis/finding.py", "report")}

# What a module of the core may use of the others (lib.rs draws the picture).
CORE_MAY_USE = {
    "error": set[str](),
    "rng": set[str](),
    "bounds": set[str](),
    "json": set[str](),
    "lines": {"capture", "error", "json", "stays"},
    "stays": {"error"},
    "spans": {"bounds", "error", "json"},
    "whole": {"error"},
    "saved": {"error"},
    "record": {"bounds", "error", "saved", "whole"},
    "callgraph": {"error", "record", "saved"},
    "window": {"bounds", "error", "record"},
    "workload": {"error", "rng"},
    "sim": {"error", "record", "rng", "workload"},
    "replay": {"rng", "sim"},
    "capture": {"bounds", "error", "record", "callgraph", "saved"},
    "load": {"error", "record", "rng", "workload", "capture", "whole"},
    "export": {"error", "record", "whole"},
    "confine": set[str](),
    "host": {"error", "record", "capture", "whole", "confine"},
}

# What a package of the bulletin board may use of the others, and whose libraries: core knows neither edge nor driver,
# and the edges do not know each other.
BOARD_MAY_USE = {
    "core": set[str](),
    "gate": set[str](),
    "cost": {"core"},
    "blocking": {"core", "cost"},
    "async": {"core", "cost", "gate"},
    "settings": {"core", "gate"},
    "data": {"settings"},
    "app": {"core", "gate", "cost", "blocking", "async", "settings", "data"},
}
BOARD_LIBRARIES = {
    "blocking": {"jakarta.servlet", "java.sql", "javax.sql", "com.zaxxer", "org.mariadb"},
    "async": {"jakarta.servlet", "io.vertx"},
    "gate": {"java.sql", "javax.sql"},
    "data": {"java.sql"},
    "app": {"jakarta.servlet", "java.sql", "javax.sql", "com.zaxxer", "io.vertx", "org.apache"},
}

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
TRACKED_BYTES_MAX = 5_000_000
BANNED = re.compile(r"\b(utils?|[A-Za-z]*Manager|[A-Za-z]*Helpers?|helpers?)\b")
MACHINE_PATH = re.compile(r"(?<![\w./$}])/(?:home|Users|root|work|mnt|srv|opt)/[\w.-]+")
# The rules themselves spell out what they forbid.
EXEMPT = {"tests/test_tidy.py"}


def tracked() -> list[Path]:
    """What git knows of, and what it would add: the rules hold before the commit."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("these rules are about tracked files, and this is no git checkout")
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def rule(paths: Iterable[Path]) -> Callable[[Callable[[Path], Iterator[str]]], Callable[[], None]]:
    """Makes a test of a function that yields what breaks a rule in one file, to be read after the file's name. The test
    reports everything that breaks the rule at once."""

    def of(check: Callable[[Path], Iterator[str]]) -> Callable[[], None]:
        def test() -> None:
            found = [name_of(path) + sentence for path in paths for sentence in check(path)]
            assert not found, f"{len(found)} to mend:\n" + "\n".join(found)

        test.__doc__ = check.__doc__
        return test

    return of


PYTHON = sorted(path for path in PACKAGE.rglob("*.py"))
# A bench may have a virtual environment of its own, which is not ours to keep tidy.
BESIDE = [
    path for folder in ("tests", "benches") for path in (ROOT / folder).rglob("*.py") if ".venv" not in path.parts
]
ALL_PYTHON = sorted([*PYTHON, *BESIDE])
RUST = sorted((ROOT / "crates").glob("*/src/**/*.rs"))
# Files that are tests as a whole: tests.rs, flow_tests.rs, and what lies in folders of such names.
RUST_TEST = re.compile(r"(?:^|/)(?:\w+_)?tests(?:\.rs|/)")
RUST_CODE = [path for path in RUST if not RUST_TEST.search(path.relative_to(ROOT / "crates").as_posix())]

BOARD = ROOT / "board"
JAVA = sorted(path for path in BOARD.glob("*/src/**/*.java"))
JAVA_CODE = [path for path in JAVA if "main" in path.relative_to(BOARD).parts]


def home(path: Path) -> str:
    """The module of the design's table that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Modules of ours that a file imports, with the line; also within functions and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "tailrace" else [base]
        else:
            continue
        yield from ((node.lineno, name.split(".")[1]) for name in names if name.startswith("tailrace."))


@rule(PYTHON)
def test_imports_follow_the_design(path: Path) -> Iterator[str]:
    module = home(path)
    if module not in MAY_IMPORT and module != ENGINE:
        yield f": {module} is not in the import table; add it to tests/test_tidy.py and to docs/design.md"
    allowed = MAY_IMPORT.get(module, set()) | {module}
    for line, imported in imports(path):
        if (name_of(path), imported) in AGAINST_THE_GRAIN:
            continue
        if imported not in allowed:
            yield (
                f":{line} imports {imported}; {module} may import {', '.join(sorted(allowed))}. "
                "Pass what is needed as a value, or move the shared part into a word"
            )


@rule([p for p in PYTHON if home(p) in ANALYSTS])
def test_the_diagnosis_never_sees_the_truth(path: Path) -> Iterator[str]:
    found = re.search(r"truth\.toml|client\.csv|expected\.toml", path.read_text())
    if found:
        yield f" speaks of {found[0]}: only score compares with the truth"


def core_module(path: Path) -> str:
    return path.relative_to(CORE).parts[0].removesuffix(".rs")


@rule([p for p in RUST_CODE if CORE in p.parents and core_module(p) != "lib"])
def test_core_modules_follow_their_arrows(path: Path) -> Iterator[str]:
    module = core_module(path)
    if module not in CORE_MAY_USE:
        yield f": add {module} to CORE_MAY_USE and to the picture in lib.rs"
    for line, text in enumerate(without_tests(path.read_text()).split("\n"), 1):
        for used in re.findall(r"\bcrate::(\w+)", text.split("//")[0]):
            if used not in CORE_MAY_USE.get(module, set()) | {module}:
                yield f":{line} uses crate::{used}; {module} may use {sorted(CORE_MAY_USE.get(module, set()))}"


@rule([p for p in [*RUST, ROOT / "crates/core/Cargo.toml"] if CORE.parent in p.parents])
def test_the_core_knows_no_python(path: Path) -> Iterator[str]:
    code = re.sub(r"//.*", "", path.read_text())
    if re.search(r"\bpyo3\b", code):
        yield ": bindings belong to crates/python"


@rule([p for p in RUST_CODE if CORE in p.parents])
def test_the_core_does_not_unwrap(path: Path) -> Iterator[str]:
    for line, text in enumerate(without_tests(path.read_text()).split("\n"), 1):
        found = re.search(r"\.(unwrap|expect)\(|\bpanic!\(|\bunreachable!\(|\btodo!\(", text.split("//")[0])
        if found:
            yield f":{line} has {found[0]}…: return an Error, or a value that cannot fail"


@rule(JAVA_CODE)
def test_packages_of_the_board_follow_their_arrows(path: Path) -> Iterator[str]:
    package = path.parent.name
    if package not in BOARD_MAY_USE:
        yield f": add {package} to BOARD_MAY_USE and to board/README.md"
    for line, text in enumerate(path.read_text().split("\n"), 1):
        imported = re.match(r"import (?:static )?((\w+\.\w+)(?:\.(\w+))?)", text)
        if not imported:
            continue
        if imported[2] == "tailrace.board":
            allowed = imported[3] in BOARD_MAY_USE.get(package, set()) | {package}
        else:
            plain = imported[1].startswith("java.") and imported[2] != "java.sql"
            allowed = plain or imported[2] in BOARD_LIBRARIES.get(package, set())
        if not allowed:
            yield (
                f":{line} imports {imported[1]}; {package} may use {sorted(BOARD_MAY_USE.get(package, set()))} and "
                f"{sorted(BOARD_LIBRARIES.get(package, set()))}: pass what is needed as a value"
            )


@rule(JAVA)
def test_java_functions_are_short(path: Path) -> Iterator[str]:
    lines = path.read_text().split("\n")
    for start, text in enumerate(lines):
        name = re.match(r"(?: {4}){1,2}(?!return\b|new\b|else\b)(?:[\w.<>\[\], ?]+ )?(\w+)\([^;]*$", text)
        if name:
            length = block_end(lines, start) - start + 1
            if length > FUNCTION_LINES_MAX:
                yield f":{start + 1} {name[1]} has {length} lines, at most {FUNCTION_LINES_MAX}: split it"


def without_tests(source: str) -> str:
    """Rust source with its test modules blanked, line for line. A file that says it is all tests is blank."""
    if re.search(r"^#!\[(?:cfg\(test\)|allow\([^)]*clippy::unwrap_used)", source, re.MULTILINE):
        return "\n" * source.count("\n")
    lines = source.split("\n")
    for start, text in enumerate(lines):
        if re.match(r"\s*#\[cfg\((?:test|any\(test\b.*)\)\]", text):
            for i in range(start, block_end(lines, start) + 1):
                lines[i] = ""
    return "\n".join(lines)


def code_lines(path: Path) -> int:
    """Lines of a file; those of a Rust file's own tests do not count."""
    text = path.read_text()
    if path.suffix != ".rs":
        return text.count("\n")
    tests = sum(
        1 for before, after in zip(text.split("\n"), without_tests(text).split("\n"), strict=True) if before != after
    )
    return text.count("\n") - tests


def block_end(lines: list[str], start: int) -> int:
    """Index of the line that closes the first brace opened at or after `start` (or ends the item without one)."""
    depth, opened = 0, False
    for i in range(start, len(lines)):
        code = code_of(lines[i])
        depth += code.count("{") - code.count("}")
        opened = opened or "{" in code
        if (opened and depth <= 0) or (not opened and code.rstrip().endswith(";")):
            return i
    return len(lines) - 1


def code_of(line: str) -> str:
    """A line of Rust without its comment, text and characters: what braces there are, are code."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
    line = re.sub(r"b?'(?:\\.[^']*|[^'\\])'", "' '", line)
    return line.split("//")[0]


@rule([*ALL_PYTHON, *RUST, *JAVA])
def test_files_are_short(path: Path) -> Iterator[str]:
    lines = code_lines(path)
    if lines > FILE_LINES_MAX:
        yield f" has {lines} lines, at most {FILE_LINES_MAX}: split it by question"


@rule(ALL_PYTHON)
def test_python_functions_are_short(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield (
                    f":{node.lineno} {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}: "
                    "let it read as a list and move the arithmetic into leaves"
                )


@rule(RUST_CODE)
def test_rust_functions_are_short(path: Path) -> Iterator[str]:
    lines = without_tests(path.read_text()).split("\n")
    for start, text in enumerate(lines):
        name = re.match(r"\s*(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern \"C\" )*fn (\w+)", text)
        if name:
            length = block_end(lines, start) - start + 1
            if length > FUNCTION_LINES_MAX:
                yield f":{start + 1} {name[1]} has {length} lines, at most {FUNCTION_LINES_MAX}: split it"


@rule([*PYTHON, *RUST, *JAVA])
def test_names_say_something(path: Path) -> Iterator[str]:
    if BANNED.fullmatch(path.stem):
        yield ": name the file after the question it answers"
    pattern = re.compile(r"\b(?:class|interface|record|def|struct|enum|trait|fn|mod|type)\s+(" + BANNED.pattern + r")")
    found = pattern.search(path.read_text())
    if found:
        yield f": {found[1]} says nothing; docs/design.md and the glossary have names"


# Phrases that read as translated; CONTRIBUTING.md ("Plain English") has the rules. Each with what to write instead.
PHRASES = {
    r"\brequests?,? whom?\b": "a request is 'it', requests are 'they'",
    r"\b(?:is|are|was|were|been|being) told(?: (?:apart|as|at|by|from|in|of|once|that|to|where)\b|[.,:])": (
        "Tailrace reports, attributes, infers or distinguishes"
    ),
    r"\b[Ww]hoever\b": "name the process, the client or the reader",
    r"\b(?:by|from|of) who (?!is\b)": "name the process, the client or the server",
    r"(?<!there )\bis no (?:call|file|loss|moment|number|request|table|tier|time)\b": "'is not a …'",
    r"\bwhole or not at all\b": "'completely or not at all'",
    r"\bmakes? (?:a|the) run of\b": "'makes a run folder from'",
    r"\b(?:def|fn) (?:test_)?(?:who|whoever|nobody|somebody)_": "a test's name states the subject and what holds",
    r"\b(?:finds_all_shut|lets_go)\b": "a function's name says what it does",
}
PHRASE = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES))
PAGES = [
    *(ROOT / "README.md", ROOT / "ARCHITECTURE.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(path for path in PACKAGE.glob("*/page/*") if path.suffix in (".j2", ".js", ".css")),
]


@rule([path for path in [*ALL_PYTHON, *RUST, *JAVA, *PAGES] if name_of(path) not in EXEMPT])
def test_the_english_is_plain(path: Path) -> Iterator[str]:
    for line, text in enumerate(path.read_text().split("\n"), 1):
        if found := PHRASE.search(text):
            instead = next(hint for phrase, hint in PHRASES.items() if re.search(phrase, text))
            yield f":{line} says {found[0]!r}: {instead}"


def test_nothing_names_this_machine() -> None:
    @rule(tracked())
    def check(path: Path) -> Iterator[str]:
        if name_of(path) in EXEMPT or path.suffix in {".lock", ".zst", ".parquet", ".gz", ".png", ".pcap", ".pcapng"}:
            return
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            return
        for line, content in enumerate(text.split("\n"), 1):
            if found := MACHINE_PATH.search(content):
                yield f":{line} has {found[0]}: paths are relative to the project"

    check()


def test_nothing_tracked_is_large() -> None:
    @rule(tracked())
    def check(path: Path) -> Iterator[str]:
        size = path.stat().st_size
        if size > TRACKED_BYTES_MAX:
            yield f" has {size} bytes, at most {TRACKED_BYTES_MAX}: crop it"

    check()


def listed(folder: Path, listing: str) -> list[tuple[str, str]]:
    """Files of a folder that add one of a kind (they define `sniff` or `detect`), and the text that must list them."""
    text = (folder / listing).read_text()
    one_more = re.compile(r"^def (?:sniff|detect)\(", re.MULTILINE)
    return [(path.stem, text) for path in sorted(folder.glob("*.py")) if one_more.search(path.read_text())]


def golden_names() -> set[str]:
    golden = ROOT / "tests" / "golden"
    return {part for path in golden.rglob("*") for part in path.relative_to(golden).with_suffix("").parts}


def test_every_reader_is_listed_and_has_a_golden_case() -> None:
    found = listed(PACKAGE / "readers", "__init__.py")
    assert found, "no reader has a sniff function: this rule looks in the wrong place"
    for name, text in found:
        assert f"{name}.sniff" in text, f"readers/{name}.py: add its line to READERS in readers/__init__.py"
        if name != "capture":  # captures are in golden/recordings
            assert name in golden_names(), f"readers/{name}.py: add a golden case tests/golden/{name}/"


def causes() -> dict[str, str]:
    """For each file of a cause, its name."""
    from tailrace.diagnosis.ledger import losses

    files = (PACKAGE / "diagnosis" / "ledger" / "losses").glob("*.py")
    names = {path.stem: re.search(r'^CAUSE = "([^"]+)"', path.read_text(), re.MULTILINE) for path in files}
    found = {stem: name[1] for stem, name in names.items() if name}
    assert set(found.values()) == {cause.name for cause in losses.CAUSES}, (
        "add each file of losses/ that has a CAUSE to CAPACITY, IN_QUIET_TIMES, DELAYS or HOLDERS in losses/__init__.py"
    )
    return found


def test_every_cause_is_listed_and_has_three_cases() -> None:
    cases = "".join(
        path.read_text() for path in (ROOT / "tests" / "unit").glob("test_*.py") if "diagnos" in path.read_text()
    )
    for stem, cause in causes().items():
        assert cases.count(f'"{cause}"') >= 3, (
            f"losses/{stem}.py: add a positive, a negative and a confusable case to tests/unit/test_ledger.py"
        )


def test_the_words_of_every_cause_can_be_completed() -> None:
    from tailrace.diagnosis.ledger import losses

    for cause in losses.CAUSES:
        for words in (cause.says.format(server="app", place="db"), cause.plain.format(origin="app", place="db")):
            assert not set(words) & set("{}"), cause.name


def test_no_cause_knows_another() -> None:
    """What several causes need has a file without a CAUSE."""
    for stem in causes():
        tree = ast.parse((PACKAGE / "diagnosis" / "ledger" / "losses" / f"{stem}.py").read_text())
        some = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and ".losses" in (one.module or "")]
        names = {str(one.module).rpartition(".")[2] for one in some} | {name.name for one in some for name in one.names}
        assert not names & causes().keys(), f"losses/{stem}.py imports another cause: {names & causes().keys()}"


def test_the_readmes_commands_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in re.findall(r"\bmake ([a-z]+)\b", (ROOT / "README.md").read_text()):
        assert command in targets, f"README.md says `make {command}`; the Makefile has {', '.join(sorted(targets))}"


def test_ci_runs_what_the_readme_says() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^\t@PROPTEST_RNG_SEED=\d+ cargo test", (ROOT / "Makefile").read_text(), re.MULTILINE), (
        "make test must draw the same cases in every run"
    )
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111, ".ci/run must be executable"


# Files that may reach standard output or standard error: the screen, and a worker whose output is a pipe to its crew.
PRINTERS = {"python/tailrace/cli/screen.py", "python/tailrace/load/worker.py"}
PRINTING = re.compile(
    r"\bsys\.std(?:out|err)\b|(?<![\w.])print\(|\b(?:typer|click)\.s?echo\(|(?<![\w.])Console\(|\bconsole\.(?:file|out|log)\b"
    r"|\bwarnings\.warn|^import logging|\bos\.write\((?:1|2),"
)


@rule([path for path in PYTHON if name_of(path) not in PRINTERS])
def test_only_the_screen_prints(path: Path) -> Iterator[str]:
    for line, text in enumerate(path.read_text().split("\n"), 1):
        if found := PRINTING.search(text):
            yield (
                f":{line} has {found[0]}: foreign text reaches a terminal only through `tell`, `say`, `print_json` or "
                "a `Screen` of cli/screen.py, which write out what is hidden in it"
            )


def test_fragments_of_the_changelog_have_a_known_kind() -> None:
    towncrier = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in towncrier["type"])

    @rule([path for path in tracked() if path.parent == ROOT / towncrier["directory"] and path.name != "README.md"])
    def check(path: Path) -> Iterator[str]:
        if not re.fullmatch(rf"\+[a-z0-9-]+\.(?:{kinds})\.md", path.name):
            yield f": name it +SLUG.KIND.md, with one of the kinds {kinds}"
        if not path.read_text().strip():
            yield ": write one sentence, from a user's view"

    check()
