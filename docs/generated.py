"""Pages that are made while the site is built, from what stands elsewhere.

The start page is the README; the rules are what `accelify explain` prints; the command line is what `--help` prints;
Accelerate's names are the table by which its scripts are migrated.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from accelify.cli import main
from accelify.codemod import checks, rules
from accelify.codemod.libraries.accelerate import VERSION, Status, counterparts

ROOT = Path(__file__).parent.parent
AT_THE_TOP = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
SCHEMA = "schema.json"  # the JSON schema of `--output-format json`, which lies in the package


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the schema that a page links to."""
    for page, source in AT_THE_TOP.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "rules.md", content=rule_pages()))
    files.append(File.generated(config, "checks.md", content=check_pages()))
    files.append(File.generated(config, "commands.md", content=commands()))
    files.append(File.generated(config, "names.md", content=names()))
    files.append(File.generated(config, SCHEMA, abs_src_path=str(ROOT / "accelify" / "report" / SCHEMA)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links as they work on the site, where `docs/` is the top, and files of the repository beside it are not there."""
    markdown = markdown.replace("../accelify/report/schema.json", SCHEMA)
    if page.file.src_uri not in AT_THE_TOP:
        return markdown
    markdown = markdown.replace("](docs/", "](")
    for name, source in AT_THE_TOP.items():
        markdown = markdown.replace(f"]({source})", f"]({name})")
    return re.sub(r"\[([^]]+)\]\((?:LICENSE|SECURITY\.md)\)", r"\1", markdown)


def rule_pages() -> str:
    """One section for each rule and each other name in a report."""
    sections = "\n".join(_rule(name, page) for name, page in rules.pages().items())
    return f"""# Rules

Each change and each note in a report names its rule. This page is what `accelify explain RULE` prints.

{sections}"""


def check_pages() -> str:
    """One section for each rule of `accelify check`."""
    sections = "\n".join(_rule(name, page) for name, page in checks.pages().items())
    return f"""# Rules of `accelify check`

What each rule finds, and why. This page is what `accelify explain RULE` prints.

{sections}"""


def _rule(name: str, page: str) -> str:
    """A rule's page: its first line, the code that it changes, and why."""
    first, _, rest = page.partition("\n")
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", rest.strip("\n")):
        if paragraph.startswith("    "):
            code = "\n".join(line[4:] for line in paragraph.splitlines())
            paragraphs.append(f"```text\n{code}\n```")
        else:
            paragraphs.append(re.sub(r"^(\w[\w ]*):", r"\n**\1:**", paragraph, flags=re.MULTILINE).strip())
    return f"## {name}\n\n{first}\n\n" + "\n\n".join(paragraphs) + "\n"


def commands() -> str:
    """What each command's `--help` prints."""
    root = click.Context(main, info_name="accelify")
    sections = "\n".join(f"## {name}\n\n```text\n{text}\n```\n" for name, text in _helps(main, root))
    return f"# Command line\n\nThis page is what `accelify COMMAND --help` prints.\n\n{sections}"


def names() -> str:
    """Every public name of Accelerate: the same, different, or absent."""
    places: dict[str, dict[tuple[Status, str], list[str]]] = {}
    for each in counterparts():
        place, _, name = each.name.rpartition(".")
        if each.name.endswith(")"):
            name = each.name.removeprefix(f"{place}.")
        places.setdefault(place, {}).setdefault((each.status, each.how), []).append(f"`{name}`")
    rows = [
        f"## {place}\n\n| names | here | |\n|---|---|---|\n"
        + "\n".join(
            f"| {', '.join(sorted(found))} | {status.value} | {how} |" for (status, how), found in groups.items()
        )
        for place, groups in places.items()
    ]
    return (
        f"""# Accelerate's names

Every public name of Accelerate {VERSION}, and what it is in accelify: the same, different (and how), or absent
(and why). A name of `accelerate.utils` is in `accelify.runtime.utils`, one of `accelerate` in `accelify.runtime`,
and so on. `f(x)` is the parameter `x` of `f`; those without a line are the same. [The runtime's API](api.md) tells
more of what differs.

"""
        + "\n\n".join(rows)
        + "\n\n"
        + accelerates_tests()
    )


def accelerates_tests() -> str:
    """Which of Accelerate's own tests do not pass on accelify, or are not run, each with the reason."""
    expected = runpy.run_path(str(ROOT / "benchmarks" / "accelerate_tests" / "expected.py"))
    different = [
        f"| {where} | `{name}` | {processes} | {why} |"
        for where, counts in expected["DIFFERENT"].items()
        for processes, names in counts.items()
        for name, why in names.items()
    ]
    left_out = [
        f"| {where} | {why} | {', '.join(f'`{name}`' for name in names)} |"
        for where, reasons in expected["LEFT_OUT"].items()
        for why, names in reasons.items()
    ]
    return f"""## Accelerate's own tests

`benchmarks/accelerate_tests/run.py` runs Accelerate's own tests of data loading, gradient accumulation, metrics,
schedulers, checkpoints and operations between processes on accelify. These test public behaviour and do not pass:

| file | test | processes | why |
|---|---|---|---|
{chr(10).join(different)}

These are left out, because they test something else or cannot run; a name stands for all that begin with it:

| file | why | tests |
|---|---|---|
{chr(10).join(left_out)}
"""


def _helps(group: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context, terminal_width=82, max_content_width=82)
        yield below.command_path, command.get_help(below)
        if isinstance(command, click.Group):
            yield from _helps(command, below)
