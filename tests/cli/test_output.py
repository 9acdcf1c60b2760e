"""What the command prints where: formats, a file for the report, counts, one line for each of many files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from accelify.commands.output_options import FORMATS
from accelify.commands.rewrite import FEW
from tests.cli.running import DECLINED, NO_LOOP, PLAIN, rewrite, write
from tests.report.test_json import schema
from tests.report.test_sarif import LOG


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    write("plain.py", PLAIN)
    write("declined.py", DECLINED)
    write("none.py", NO_LOOP)


@pytest.mark.parametrize("output", FORMATS[1:])
@pytest.mark.parametrize("mode", [[], ["--diff"], ["--check"]])
def test_other_programs_get_stdout_to_themselves(output: str, mode: list[str]) -> None:
    done = rewrite(".", "gone.py", "--output-format", output, *mode)
    assert (done.returncode, done.stderr) == (2, "")
    if output == "json":
        document = json.loads(done.stdout)
        jsonschema.validate(document, schema())
        assert document["written"] == (mode == [])
        assert ("diff" in document["files"][0]) == (mode == ["--diff"])
    elif output == "sarif":
        jsonschema.Draft202012Validator(LOG).validate(json.loads(done.stdout))
    else:
        assert all(re.match(r"::(error|warning|notice) .+::.", line) for line in done.stdout.splitlines())
        assert "file=declined.py,line=8" in done.stdout


def test_before_it_is_written_a_note_is_annotated_where_its_line_is_now() -> None:
    place = re.compile(r"\(batch_size\),file=plain\.py,line=(\d+)")
    (line,) = place.findall(rewrite("--check", ".", "--output-format=github").stdout)
    assert PLAIN.splitlines()[int(line) - 1].startswith("loader = ")
    (line,) = place.findall(rewrite(".", "--output-format=github").stdout)
    assert Path("plain.py").read_text().splitlines()[int(line) - 1].startswith("loader = ")


@pytest.mark.parametrize("output", FORMATS)
def test_the_report_goes_into_a_file(output: str) -> None:
    said = rewrite("--check", ".", "--output-format", output).stdout
    done = rewrite("--check", ".", "--output-format", output, "--output-file", "report.out")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert Path("report.out").read_text() == said
    both = rewrite("--diff", ".", "--output-format", output, "-o", "report.out")
    assert both.stdout.startswith("--- a/plain.py\n")
    assert rewrite("--check", ".", "-o", "gone/report").returncode == 2
    assert "is no folder to write into" in rewrite("--check", ".", "-o", "gone/report").stderr


def test_quiet_says_what_is_left_for_a_person() -> None:
    done = rewrite("--check", "--quiet", ".")
    assert done.returncode == 1
    said = [line.split()[0].split(":")[0] for line in done.stdout.splitlines()]
    assert list(dict.fromkeys(said)) == ["declined.py", "plain.py"]
    assert said.count("plain.py") == 2  # its headline and its note
    assert "batch_size" in done.stdout
    assert rewrite("--check", "-q", "none.py").stdout == ""


def test_statistics_count_by_rule_and_by_reason() -> None:
    write("other.py", DECLINED.replace("dist.send", "dist.isend"))
    done = rewrite("--check", "--statistics", ".")
    assert re.search(r"^ +2  device_moves$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +2  distributed: .*`\.\.\.`", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].startswith("1 file would be migrated, 2 declined")
    counts = json.loads(rewrite("--check", "--statistics", ".", "--output-format=json").stdout)["statistics"]
    assert counts["declined"][0]["files"] == 2


def test_of_many_files_each_is_one_line_unless_asked() -> None:
    for number in range(FEW):
        write(f"many/{number}.py", PLAIN)
    done = rewrite("--check", ".")
    lines = done.stdout.splitlines()
    assert len(lines) == FEW + 3
    assert re.match(r"declined\.py:7: declined, distributed: .+", lines[0])
    assert re.match(r"many/0\.py: would be migrated \(\d+ changes, 1 note\)$", lines[1])
    assert lines[-1].endswith("`-v` shows all changes and notes.")
    assert "backward" in rewrite("--check", ".", "--verbose").stdout
    assert "backward" in rewrite("--check", "plain.py", "declined.py").stdout
