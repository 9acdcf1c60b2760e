"""A verdict as one HTML file that needs nothing else: the rows, the runs' losses drawn over each other, the diff."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from accelify.verify.verdict import Row, Status, Verdict

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 48
# Drawn first to last, each thinner than the one before, so that curves that lie on each other all show.
STROKES = (("original", 9.0), ("one", 6.0), ("comparable", 3.5), ("many", 1.4))
_CLASSES = {Status.HOLDS: "holds", Status.NATURE: "nature", Status.NOTHING: "nothing", Status.DIFFERS: "differs"}
_SMALL = re.compile(r"[\d.]+e-\d+")  # a browser would break it at its minus
_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1c2330; --soft: #4a5568; --faint: #748093; --line: #e3e7ee;
--code: #f6f8fb; --good: #1e7d3c; --bad: #b3261e; --bad-page: #fdecea; --maybe: #8a5a00; --added: #14632e;
--added-page: #e6f4ea; --removed: #8c1d18; --place: #2f6fde;
--original: #c9ced6; --one: #2f6fde; --comparable: #f0b84a; --many: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #14181f; --ink: #e4e8ef; --soft: #aab4c3; --faint: #8390a3;
--line: #2b323e; --code: #1b212b; --good: #5cc37c; --bad: #ff8a80; --bad-page: #3a1d1c; --maybe: #e0ad4f;
--added: #8fdba8; --added-page: #16301f; --removed: #ffb0a8; --place: #86b1ff;
--original: #5b6575; --one: #6ea0ff; --comparable: #f3cf6b; --many: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1280px; padding: 0 1rem;
background: var(--page); color: var(--ink); overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
.word { border-radius: 4px; color: #fff; display: inline-block; padding: .1rem .6rem; }
.number { white-space: nowrap; } .word.w0 { background: #1e7d3c; }
.word.w1 { background: #b3261e; } .word.w2 { background: #6b4f00; } p.about { color: var(--soft); margin: .2rem 0; }
table { border-collapse: collapse; width: 100%; } td { border-top: 1px solid var(--line); padding: .3rem .7rem .3rem 0;
vertical-align: top; } td:first-child { white-space: nowrap; width: 5.5rem; padding-left: .4rem; font-weight: 600; }
td:nth-child(2) { white-space: nowrap; width: 8rem; } .holds td:first-child { color: var(--good); }
.differs td { background: var(--bad-page); } .differs td:first-child { color: var(--bad); }
.nature td:first-child { color: var(--maybe); } .nothing td { color: var(--faint); }
code { font-family: ui-monospace, monospace; font-size: .92em; }
.beside { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 1.5rem; align-items: start; }
@media (max-width: 900px) { .beside { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 600px) { td { display: inline-block; border: 0; padding-bottom: 0; } tr { display: block;
border-top: 1px solid var(--line); padding-bottom: .3rem; } td:nth-child(2) { font-weight: 600; width: auto; }
td:nth-child(3) { display: block; padding-left: .4rem; } .differs { background: var(--bad-page); } }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
@media (max-width: 600px) { svg text { font-size: 20px; } }
svg line { stroke: var(--line); } path { fill: none; stroke-linejoin: round; stroke-linecap: round; }
.legend span { display: inline-block; margin-right: 1.2rem; } .legend i { display: inline-block; width: 1.6rem;
margin-right: .4rem; border-radius: 2px; vertical-align: middle; }
pre { background: var(--code); border-radius: 6px; padding: .7rem; overflow: auto; max-height: 34rem; margin: 0;
font-size: 12.5px; white-space: pre-wrap; } pre code { display: block; }
pre span { display: block; } pre .add { color: var(--added); background: var(--added-page); }
pre .del { color: var(--removed); background: var(--bad-page); } pre .at { color: var(--place); }
"""


def render(verdict: Verdict) -> str:
    """The whole page."""
    return "\n".join(_page(verdict)) + "\n"


def _page(verdict: Verdict) -> Iterator[str]:
    script = escape(verdict.script)
    yield "<!doctype html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>accelify verify {script}</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
    yield f'<h1>{script} <span class="word w{verdict.status}">{escape(verdict.conclusion)}</span></h1>'
    if verdict.error is not None:
        yield f"<pre>{escape(verdict.error)}</pre></body></html>"
        return
    yield f'<p class="about">{escape(_about(verdict))}</p>'
    yield f'<p class="about">{escape(str(verdict.circumstances))}</p>'
    for _, heading, rows in verdict.parts:
        yield f"<h2>{heading[:1].upper()}{heading[1:]}</h2><table>"
        yield from map(_row, rows)
        yield "</table>"
    yield '<div class="beside"><div><h2>Losses of the runs</h2>'
    yield from _chart(verdict.curves)
    yield "</div><div><h2>The change</h2>"
    yield f"<pre><code>{''.join(map(_diff_line, verdict.diff.splitlines()))}</code></pre></div></div>"
    if verdict.notes:
        yield f"<h2>For you to review</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in verdict.notes)}</ul>"
    yield "</body></html>"


def _about(verdict: Verdict) -> str:
    parts = [f"Took {verdict.seconds:.0f} s."]
    if verdict.made_comparable:
        made = "; ".join(verdict.made_comparable)
        parts.append(f"To compare runs on {verdict.processes} processes with the original: {made}.")
    if verdict.replaced:
        parts.append(f"Replaced by synthetic data: {'; '.join(verdict.replaced)}.")
    parts += [f"{way[:1].upper()}{way[1:]}." for way in verdict.ways_on]
    return " ".join(parts)


def _row(row: Row) -> str:
    where = f" <code>{escape(row.place)}</code>" if row.place else ""
    words = _SMALL.sub(r'<span class="number">\g<0></span>', escape(row.words))
    cells = f"<td>{row.status.value}</td><td>{escape(row.name)}</td><td>{words}{where}</td>"
    return f'<tr class="{_CLASSES[row.status]}">{cells}</tr>'


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "at"}.get(line[:1])
    is_change = kind is not None and not line.startswith(("+++", "---"))
    return f'<span class="{kind if is_change else "same"}">{escape(line) or " "}</span>'


def _chart(curves: dict[str, tuple[float, ...]]) -> Iterator[str]:
    points = [loss for losses in curves.values() for loss in losses if math.isfinite(loss)]
    if not points:
        yield "<p>No loss was a finite number.</p>"
        return
    low, high = min(points), max(points)
    high = high if high > low else low + 1.0
    count = max(len(losses) for losses in curves.values())
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Losses of the runs by backward pass">'
    for mark in _marks(low, high):
        y = _y(mark, low, high)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:.4g}</text>'
    for position in sorted({0, (count - 1) // 2, count - 1}):
        x = _x(position, count)
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{position + 1}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">backward pass</text>'
    strokes = _strokes(len(curves))
    for losses, (colour, width) in zip(curves.values(), strokes, strict=True):
        for path in _paths(losses, count, low, high):
            yield f'<path d="{path}" style="stroke: var(--{colour}); stroke-width: {width}"/>'
    yield '</svg><p class="legend">'
    for name, (colour, width) in zip(curves, strokes, strict=True):
        yield f'<span><i style="background: var(--{colour}); height: {max(width, 2)}px"></i>{escape(name)}</span>'
    yield "</p>"


def _strokes(count: int) -> Sequence[tuple[str, float]]:
    """Widest first, the thin one last whatever the count."""
    return (*STROKES[: count - 1], STROKES[-1])


def _marks(low: float, high: float) -> list[float]:
    """About five round numbers between the two."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _x(position: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (position / max(count - 1, 1))


def _y(loss: float, low: float, high: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (loss - low) / (high - low))


def _paths(losses: Sequence[float], count: int, low: float, high: float) -> Iterator[str]:
    """The curve, broken where a loss is not finite; a loss that stands alone is a dot."""
    points = ((_x(position, count), loss) for position, loss in enumerate(losses))
    for is_finite, piece in groupby(points, key=lambda point: math.isfinite(point[1])):
        if is_finite:
            words = [f"{x:.1f} {_y(loss, low, high):.1f}" for x, loss in piece]
            yield "M" + " L".join(words if len(words) > 1 else words * 2)
