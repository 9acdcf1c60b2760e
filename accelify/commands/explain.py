"""`accelify explain`: the page of a rule, as its module's docstring has it."""

from __future__ import annotations

import sys

import click


@click.command(short_help="Print what a rule does, and why.")
@click.argument("rule", required=False, metavar="[RULE]")
def command(rule: str | None) -> None:
    """Print the page of RULE: what it changes, why, and what it leaves alone. Without RULE, list them all."""
    from accelify.codemod import checks, rules

    known = {**rules.pages(), **checks.pages()}
    if rule is None:
        width = max(map(len, known))
        for name, page in known.items():
            click.echo(f"{name:{width}}  {page.splitlines()[0]}")
        return
    if rule not in known:
        from accelify.errors import did_you_mean

        hint = did_you_mean(rule, known).replace(".", f"; there are {', '.join(known)}")
        click.echo(f"accelify: there is no rule {rule!r}{hint}", err=True)
        sys.exit(2)
    click.echo(f"{rule}: {known[rule]}")
