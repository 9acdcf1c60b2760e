"""New text -> bytes, in the file's own encoding, with the line ends that its lines had."""

from __future__ import annotations

from accelify.codemod.files.lines import opcodes
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.source import encode


def encoded(parsed: Parsed, text: str) -> bytes:
    """A file's new text as bytes."""
    return encode(_restored(parsed, text), parsed.decoded)


def _restored(parsed: Parsed, text: str) -> str:
    """Give the lines that did not change their own ends, form feeds and all; new lines end as most of the file's do."""
    original = parsed.decoded.text
    if "\r" not in original and "\f" not in original:
        return text
    before, raw = parsed.text.split("\n"), _split(original)
    counts = {end: sum(line.endswith(end) for line in raw) for end in ("\r\n", "\n", "\r")}
    counts["\n"] -= counts["\r\n"]
    common = max(counts, key=lambda end: counts[end])
    after = text.split("\n")
    out = []
    for tag, start, end, new_start, new_end in opcodes(before, after):
        if tag == "equal":
            out.extend(raw[start:end])
        else:
            out.extend(line + common for line in after[new_start:new_end])
    joined = "".join(out)
    if not text.endswith("\n"):
        return joined.rstrip("\r\n") if joined.endswith(("\r", "\n")) else joined
    return joined


def _split(text: str) -> list[str]:
    """Lines with their ends, cut at `\\n`, `\\r\\n` and `\\r` only, so that they pair with the parsed text's lines."""
    out, start, index = [], 0, 0
    while index < len(text):
        if text[index] == "\r" and text[index + 1 : index + 2] == "\n":
            index += 2
        elif text[index] in "\r\n":
            index += 1
        else:
            index += 1
            continue
        out.append(text[start:index])
        start = index
    return [*out, text[start:]]
