"""`dpbandits plan`: what privacy will cost a decision, from public facts, before anybody is asked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from dpbandits.cli.console import console, error_console
from dpbandits.cli.options import AsJson, Jobs, names_in, range_in
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits.lab.planning import PrivacyPlan

__all__ = ["plan"]

_Numbers = str | None


def plan(
    people: Annotated[
        Path,
        Argument(
            help="TOML file of the columns, and of what is known in [plan]. The table that it may name is "
            "opened only with --public."
        ),
    ],
    *,
    arms: Annotated[str | None, Option(help="Arms, as a,b,c.")] = None,
    users: Annotated[int | None, Option(min=1, help="People to come, one decision each.")] = None,
    target: Annotated[float, Option(help="Share of the non-private uplift that is to be kept.")] = 0.9,
    certainty: Annotated[float, Option(help="With which probability.")] = 0.9,
    epsilon: Annotated[float, Option(help="The largest epsilon that may be promised.")] = 10.0,
    promise: Annotated[float, Option(help="Epsilon at which the number of people is asked about.")] = 1.0,
    delta: Annotated[float, Option(help="Of central promises.")] = 1e-6,
    base_rate: Annotated[_Numbers, Option(help="Mean reward of a random arm: a number, or LOW:HIGH.")] = None,
    effect: Annotated[
        _Numbers, Option(help="What the best arm for each pays above a random one: a number, or LOW:HIGH.")
    ] = None,
    personal: Annotated[
        _Numbers, Option(help="The part of the effect that no single arm gets: a number, or LOW:HIGH.")
    ] = None,
    rates: Annotated[
        _Numbers,
        Option(help="Mean reward of every arm, were it given to everyone, as mail=LOW:HIGH,call=NUMBER."),
    ] = None,
    smoothness: Annotated[
        str | None, Option(help="smooth, medium or rough; or a share of a range, or LOW:HIGH.")
    ] = None,
    trust: Annotated[list[str] | None, Option(help="central or local; repeat. Both if left out.")] = None,
    public: Annotated[
        bool,
        Option(
            "--public",
            help="Everybody may see the table that the file names: resample its people. Planning on private "
            "data is refused.",
        ),
    ] = False,
    seconds: Annotated[
        float, Option(min=0.0, help="No further worlds are begun after them; the first answer comes anyway.")
    ] = 60.0,
    worlds: Annotated[int, Option(min=2, help="Simulated worlds, at most.")] = 24,
    jobs: Jobs = -1,
    seed: Annotated[int, Option(min=0, help="Of the first world.")] = 1_000_000,
    cache: Annotated[Path | None, Option(help="File in which what was simulated is kept.")] = None,
    out: Annotated[Path | None, Option(help="Folder for plan.json and plan.png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what privacy will cost, per trust model, before a single person is asked.

    An answer is printed once enough worlds were simulated, and better ones after it until the time is up. If
    the time is up before that, the last answer is printed and called preliminary.
    """
    from dpbandits.lab import planning

    how: dict[str, Any] = {
        "target": target,
        "certainty": certainty,
        "epsilon": epsilon,
        "promise": min(promise, epsilon),
        "delta": delta,
        "seconds": seconds,
        "worlds": worlds,
        "jobs": jobs,
        "seed": seed,
        "cache": cache,
        "watch": None if as_json else _show,
        **({} if trust is None else {"trusts": trust}),
    }
    beliefs = {
        "base_rate": base_rate,
        "effect": effect,
        "personal": personal,
        "rates": rates,
        "smoothness": smoothness,
    }
    if public:
        from dpbandits.lab.worlds import table_from_toml

        given = [f"--{name.replace('_', '-')}" for name, said in (beliefs | {"arms": arms}).items() if said]
        if given:
            raise InvalidParameter(f"{', '.join(given)}: with --public the table says that, leave them out")
        table = table_from_toml(people, seed=seed)
        found = planning.plan(
            users=table.horizon if users is None else users, table=table, public=True, **how
        )
    else:
        said: dict[str, Any] = {
            name: None if text is None else (_rates if name == "rates" else _belief)(text)
            for name, text in beliefs.items()
        }
        said["arms"] = None if arms is None else names_in(arms)
        facts, rest = planning.Facts.from_toml(people, **said)
        count = rest.get("users") if users is None else users
        if count is None:
            raise InvalidParameter("users: neither [plan] nor an option says it: pass --users 50000")
        found = planning.plan(users=count, facts=facts, **how)
    if found.preliminary and not as_json:
        console().print(str(found), soft_wrap=True)
    if out is not None:
        from dpbandits.lab.plot import to_png

        out.mkdir(parents=True, exist_ok=True)
        (out / "plan.json").write_text(found.to_json() + "\n", encoding="utf-8")
        (out / "plan.png").write_bytes(to_png(found.picture()))
    if as_json:
        typer.echo(found.to_json())


def _belief(text: str) -> Any:
    """A number, two ends of LOW:HIGH, or a word."""
    if ":" in text:
        return range_in(text)
    try:
        return float(text)
    except ValueError:
        return text


def _rates(text: str) -> dict[str, Any]:
    """Return the beliefs about every arm, by its label."""
    said = [[part.strip() for part in one.rpartition("=")] for one in names_in(text)]
    if any(not sign for _, sign, _ in said):
        raise InvalidParameter("rates: expected ARM=NUMBER or ARM=LOW:HIGH for every arm, by commas")
    found = {label: _belief(value) for label, _, value in said}
    if len(found) < len(said):
        raise InvalidParameter("rates: an arm is named twice")
    return found


def _show(found: "PrivacyPlan") -> None:
    if found.preliminary:
        error_console().print(f"{found.worlds} worlds, {found.seconds:.0f} s: too few for an answer")
        return
    console().print(str(found), soft_wrap=True)
    console().print()
    error_console().print(f"{found.worlds} worlds, {found.seconds:.0f} s", soft_wrap=True)
