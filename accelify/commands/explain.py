"""`accelify explain`: the page of a rule, as its module's docstring has it."""

from __future__ import annotations

import sys

import click


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from accelify.codemod import checks, rules

    return [name for name in (*rules.pages(), *checks.pages()) if name.startswith(incomplete)]


@click.command(short_help="Explain a rule.")
@click.argument("rule", required=False, metavar="[RULE]", shell_complete=_complete)
def command(rule: str | None) -> None:
    """Print the page of RULE, the name beside each line of a report: what it changes, why, and what it leaves alone.

    Without RULE, list all rules.
    """
    from accelify.codemod import checks, rules

    known = {**rules.pages(), **checks.pages()}
    if rule is None:
        width = max(map(len, known))
        for kind, pages in {"rewrite": rules.pages(), "check": checks.pages()}.items():
            click.echo(f"Rules of `accelify {kind}`:")
            for name, page in pages.items():
                click.echo(f"  {name:{width}}  {page.splitlines()[0]}")
        return
    if rule not in known:
        from accelify.errors import did_you_mean

        hint = did_you_mean(rule, known).replace(".", f"; there are {', '.join(known)}")
        click.echo(f"accelify: there is no rule {rule!r}{hint}", err=True)
        sys.exit(2)
    click.echo(f"{rule}: {known[rule]}")
