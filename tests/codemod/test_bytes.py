"""Bytes outside the edits come back as they were: line ends, marks, encodings, tabs, form feeds, the last line."""

from __future__ import annotations

import pytest

from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_source
from tests.codemod.pairs import script

PLAIN = script(before="words = 'a'  # one\n\n# two", batch="x = x.to(device)", end="print(words)")


def after(data: bytes) -> bytes:
    result = rewrite_source("train.py", data, Options())
    assert result.status is Status.MIGRATED, (result.error, result.notes)
    again = rewrite_source("train.py", result.after, Options())
    assert again.status is Status.UNCHANGED
    return result.after


EXPECTED = after(PLAIN.encode())


def test_crlf_stays_crlf() -> None:
    assert after(PLAIN.replace("\n", "\r\n").encode()) == EXPECTED.replace(b"\n", b"\r\n")


def test_mixed_line_ends_stay_where_they_are() -> None:
    lines = PLAIN.split("\n")
    mixed = "".join(line + ("\r\n" if index % 2 else "\n") for index, line in enumerate(lines[:-1])) + lines[-1]
    got = after(mixed.encode())
    assert got.replace(b"\r\n", b"\n") == EXPECTED
    kept = [line for line in mixed.encode().splitlines(keepends=True) if line.strip()]
    for line in got.splitlines(keepends=True):
        if line.strip() and line.rstrip(b"\r\n") in PLAIN.encode().split(b"\n"):
            assert line in kept


def test_a_byte_order_mark_stays() -> None:
    assert after(b"\xef\xbb\xbf" + PLAIN.encode()) == b"\xef\xbb\xbf" + EXPECTED


def test_a_byte_order_mark_with_crlf() -> None:
    assert after(b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode()) == b"\xef\xbb\xbf" + EXPECTED.replace(
        b"\n", b"\r\n"
    )


def test_another_encoding_stays() -> None:
    cookie = "# -*- coding: latin-1 -*-\n"
    text = PLAIN.replace("'a'  # one", "'é'  # ün")
    want = EXPECTED.decode().replace("'a'  # one", "'é'  # ün")
    assert after((cookie + text).encode("latin-1")) == (cookie + want).encode("latin-1")


def test_tabs_stay_and_new_lines_use_them() -> None:
    assert after(PLAIN.replace("    ", "\t").encode()) == EXPECTED.replace(b"    ", b"\t")


def test_two_blanks_stay_and_new_lines_use_them() -> None:
    assert after(PLAIN.replace("    ", "  ").encode()) == EXPECTED.replace(b"    ", b"  ")


def test_tabs_in_a_function_indent_the_new_lines() -> None:
    body = (
        "def main():\n"
        + "".join(f"    {line}\n" if line else "\n" for line in PLAIN.split("\n")[3:-1])
        + "\n\nmain()\n"
    )
    head = "\n".join(PLAIN.split("\n")[:3]) + "\n\n\n"
    text = head + body
    want = after(text.encode())
    assert b"\n    accelerator = Accelerator()\n" in want
    assert after(text.replace("    ", "\t").encode()) == want.replace(b"    ", b"\t")


def test_a_form_feed_stays() -> None:
    text = PLAIN.replace("# two", "\f\n# two")
    got = after(text.encode())
    assert got.count(b"\f") == 1
    assert got.replace(b"\f\n", b"") == EXPECTED or got.replace(b"\f", b"").split() == EXPECTED.split()


def test_a_form_feed_inside_a_block_stays() -> None:
    text = PLAIN.replace("        optimizer.step()\n", "\f\n        optimizer.step()\n")
    assert after(text.encode()).count(b"\f\n        optimizer.step()\n") == 1


@pytest.mark.parametrize(
    "end", [b"", b"\n\n\n", b"  # end", b"\n# end", b"\n    ", b"\n\n\n  \n", b"\n\n \n\t\n", b"\n\n ", b"\n\n # end\n"]
)
def test_the_end_of_the_file_stays(end: bytes) -> None:
    assert after(PLAIN.encode().rstrip(b"\n") + end) == EXPECTED.rstrip(b"\n") + end


def test_no_newline_at_the_end_of_a_line_that_changes() -> None:
    text = PLAIN.rstrip("\n") + "\nloss = model(x).sum()\nloss.backward()"
    assert after(text.encode()).endswith(b"loss = model(x).sum()\naccelerator.backward(loss)")


def test_no_newline_at_the_end_with_crlf() -> None:
    text = PLAIN.rstrip("\n").replace("\n", "\r\n")
    assert after(text.encode()) == EXPECTED.rstrip(b"\n").replace(b"\n", b"\r\n")


def test_trailing_blanks_stay() -> None:
    text = PLAIN.replace("words = 'a'  # one\n\n", "words = 'a'  # one   \n   \n")
    assert after(text.encode()) == EXPECTED.replace(b"words = 'a'  # one\n\n", b"words = 'a'  # one   \n   \n")


def test_continued_lines_and_strings_over_lines_stay() -> None:
    odd = "words = 'a' + \\\n    'b'\ntext = '''one\r\n\ttwo  \n\f'''\n"
    text = PLAIN.replace("words = 'a'  # one\n", odd).replace("print(words)", "print(words, text)")
    assert after(text.encode()).count(odd.encode()) == 1


def test_other_breaks_that_are_no_line_ends_stay() -> None:
    odd = "words = 'a\u2028b\x85c\x1cd'  # \u2028 \x0b"
    got = after(PLAIN.replace("words = 'a'  # one", odd).encode())
    assert got == EXPECTED.replace(b"words = 'a'  # one", odd.encode())


def test_a_whole_script_in_crlf_with_a_mark_and_no_last_newline() -> None:
    from tests import scripts

    folder = scripts.FIXTURES / "scripts" / "mnist"
    before, want = scripts.read(folder, "before")[scripts.MAIN], scripts.read(folder, "after")[scripts.MAIN]

    def dressed(data: bytes) -> bytes:
        return b"\xef\xbb\xbf" + data.rstrip(b"\n").replace(b"\n", b"\r\n")

    assert after(dressed(before)) == dressed(want)
