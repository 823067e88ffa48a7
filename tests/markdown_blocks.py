"""Run the code blocks of a Markdown page in order, as a reader of the page would.

- `python` blocks of a page share one namespace. `sql` blocks run through the variable `spark`.
- Of `sh` blocks, `kafkalog` commands run in this process, `make` commands must name a target of the Makefile.
- A `text` block directly after a block is what that block prints. A line `...` stands for any lines.
- `# exit code 1` after a command is the exit code that it must have; without it, 0.
- `<!-- not run: <reason> -->` in the line before a block excludes it.

The working directory has a copy of `examples/`, whose log directory a broker wrote, and of `conf/`.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from native_log.cli.app import kafkalog

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(ROOT / name / "README.md" for name in ("benchmarks", "examples")),
        *(ROOT / "docs").rglob("*.md"),
    )
)
_CODE = ("python", "sql", "sh")
_DATA = ("text", "mermaid", "properties", "json")
_NOT_RUN = re.compile(r"\s*<!-- not run: (?P<reason>.+) -->\s*")
_FENCE = re.compile(r"(?P<indent> *)```(?P<language>\w*)\s*")
_SPARK = re.compile(r"""\bspark\b|\bkafkalog_spark\b|\bdf\b|\brecentProgress\b|format\("kafkalog"\)""")
_EXIT_CODE = re.compile(r"# exit code (\d+)\s*$")
_RELATIVE_PATH = re.compile(r"""(?<=["'])(?=(?:examples|conf|data)/)""")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        line: the number of the first line of its code in the page, from 1.
        output: what it prints; None: the page does not show it.
        reason: why it is not run; None: it is run.
    """

    page: str
    line: int
    language: str
    code: str
    output: str | None = None
    reason: str | None = None

    @property
    def is_code(self) -> bool:
        return self.language in _CODE

    @property
    def needs_spark(self) -> bool:
        return self.language == "sql" or (self.language == "python" and bool(_SPARK.search(self.code)))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page. Raises ValueError for a block of an unknown language."""
    all_blocks: list[Block] = []
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    number, follows_block, reason = 0, False, None
    while number < len(lines):
        line = lines[number]
        number += 1
        fence = _FENCE.fullmatch(line)
        if fence is None:
            marker = _NOT_RUN.fullmatch(line)
            reason = marker["reason"] if marker else None
            follows_block = follows_block and not line.strip()
            continue
        start, indent = number, len(fence["indent"])
        while lines[number].strip() != "```":
            number += 1
        code = "".join(f"{text[indent:]}\n" for text in lines[start:number])
        number += 1
        block = Block(page, start + 1, fence["language"], code, reason=reason)
        if block.language not in (*_CODE, *_DATA):
            raise ValueError(
                f"{block}: expected one of {', '.join((*_CODE, *_DATA))}, found {block.language!r}"
            )
        if block.language == "text" and follows_block:
            last = all_blocks[-1]
            all_blocks[-1] = Block(page, last.line, last.language, last.code, code, last.reason)
            follows_block = False
        else:
            all_blocks.append(block)
            follows_block = block.is_code
        reason = None
    return all_blocks


class Page:
    """Runs the blocks of a page.

    Args:
        directory: the working directory.
        names: variables of the Python blocks.
    """

    def __init__(self, directory: Path, **names: Any) -> None:
        shutil.copytree(ROOT / "examples", directory / "examples", copy_function=shutil.copy2)
        shutil.copytree(ROOT / "conf", directory / "conf")
        self._directory = directory
        self._names: dict[str, Any] = {"__name__": "__main__", **names}

    def run(self, block: Block) -> None:
        """Run a block. Raises AssertionError if it prints something else than the page shows."""
        with contextlib.chdir(self._directory):
            printed = getattr(self, f"_run_{block.language}")(block)
        if block.output is not None:
            expected = _strip(block.output)
            pattern = "\n".join(
                "(.*\n)*.*" if line == "..." else re.escape(line) for line in expected.split("\n")
            )
            assert re.fullmatch(pattern, _strip(printed)), (
                f"{block} prints:\n{_strip(printed)}\nbut the page shows:\n{expected}"
            )

    def _run_python(self, block: Block) -> str:
        # Spark reads files in processes of its own, which have another working directory.
        code = self._absolute(block.code) if block.needs_spark else block.code
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * (block.line - 1) + code, str(ROOT / block.page), "exec"), self._names)
        return printed.getvalue().replace(f"{self._directory}/", "")

    def _run_sql(self, block: Block) -> str:
        for statement in self._absolute(block.code).split(";"):
            if statement.strip():
                self._names["spark"].sql(statement).collect()
        return ""

    def _absolute(self, code: str) -> str:
        return _RELATIVE_PATH.sub(f"{self._directory}/", code)

    def _run_sh(self, block: Block) -> str:
        return "".join(self._run_command(block, command) for command in _commands(block.code))

    def _run_command(self, block: Block, line: str) -> str:
        expected = _EXIT_CODE.search(line)
        program, *arguments = shlex.split(line, comments=True)
        if program == "make":
            for target in arguments:
                assert "=" in target or f"\n{target}:" in (ROOT / "Makefile").read_text(), f"{block}: {line}"
            return ""
        assert program == "kafkalog", f"{block}: {line}: mark the block as not run, with a reason"
        assert "|" not in arguments, f"{block}: {line}: mark the block as not run, with a reason"
        result = CliRunner().invoke(kafkalog, arguments, input="y\n", prog_name="kafkalog")
        assert result.exit_code == (int(expected[1]) if expected else 0), f"{block}: {line}\n{result.output}"
        return str(result.output).replace(f"{self._directory}/", "")


def _commands(code: str) -> Iterator[str]:
    for line in code.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def _strip(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
