"""Make the pictures of docs/images anew, from what accelify prints today: `python docs/screenshots.py`.

It needs chromium, and the environment that `make venv` sets up. Beside each picture lies the text that it shows, and
tests/test_pages.py compares that with what is printed: when it fails, run this again.
"""

from __future__ import annotations

import html
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
QUICKSTART = Path(__file__).parent / "quickstart.md"
REWRITE = ("rewrite", "--check", "train.py")
VERIFY = ("verify", "--html", "report.html", "train.py")
COLUMNS = 112
_COLOURS = {"1": "font-weight:bold", "2": "color:#8b949e", "31": "color:#ff7b72", "32": "color:#7ee787"}
_COLOURS |= {"33": "color:#e3b341", "36": "color:#76e3ea"}
_TERMINAL = "margin:0;padding:14px 18px;background:#0d1117;color:#e6edf3;font:14px/19.6px 'DejaVu Sans Mono',monospace"
_HEIGHT = "<script>addEventListener('load',()=>document.title=document.documentElement.scrollHeight)</script>"


def script() -> str:
    """The script of the quickstart."""
    match = re.search(
        r'^```python title="train.py"\n(.*?)^```$', QUICKSTART.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert match is not None
    return match[1]


def printed(arguments: tuple[str, ...], folder: Path, columns: int = COLUMNS) -> str:
    """What a command prints on a terminal, with its colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": ""}
    command = [sys.executable, "-m", "accelify", *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL):
        os.close(theirs)
        pieces = []
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # which is how a terminal ends
                break
            pieces.append(piece)
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def lasting(text: str) -> str:
    """A text without its colours and line breaks, and `...` for what the machine and the time of day make of it."""
    text = " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())
    text = re.sub(r"\d{4}-\d\d-\d\d .* CPUs", "...", text)
    return re.sub(r"\d+e-\d+|(?<=in )\d+(?= s$)", "...", text) + "\n"


def terminal(arguments: tuple[str, ...], text: str) -> str:
    """A page that looks like a terminal."""
    shown = html.escape(f"$ accelify {' '.join(arguments)}\n{text}")

    def span(match: re.Match[str]) -> str:
        style = ";".join(_COLOURS[code] for code in match[1].split(";"))
        return f'<span style="{style}">{match[2]}</span>'

    shown = re.sub(r"\x1b\[([\d;]+)m(.*?)\x1b\[0m", span, shown, flags=re.DOTALL)
    return f'<!doctype html><meta charset="utf-8"><body style="margin:0"><pre style="{_TERMINAL}">{shown}</pre>'


def photograph(page: str, picture: Path, folder: Path, width: int = 1000) -> None:
    """A picture of a whole page."""
    file = folder / "page.html"
    file.write_text(page + _HEIGHT, encoding="utf-8")
    browser = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    size = f"--window-size={width},200"
    dumped = subprocess.run([*browser, size, "--dump-dom", str(file)], capture_output=True, text=True, check=True)
    height = re.search(r"<title>(\d+)</title>", dumped.stdout)
    assert height is not None, dumped.stderr
    size = f"--window-size={width},{height[1]}"
    subprocess.run([*browser, size, f"--screenshot={picture}", str(file)], capture_output=True, check=True)


def main() -> None:
    """All pictures, and the texts beside them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(script())
        text = printed(REWRITE, folder)
        photograph(terminal(REWRITE, text), IMAGES / "rewrite.png", folder)
        (IMAGES / "rewrite.txt").write_text(lasting(text))
        text = printed(VERIFY, folder)
        photograph((folder / "report.html").read_text("utf-8"), IMAGES / "verify.png", folder)
        (IMAGES / "verify.txt").write_text(lasting(text))


if __name__ == "__main__":
    main()
