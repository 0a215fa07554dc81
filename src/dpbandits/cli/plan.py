"""`dpbandits plan`: predicts the cost of privacy from public facts, before any data is collected."""

import json
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
        Path | None,
        Argument(
            help="TOML file with the columns and a section `plan` of known facts. A table that it names is "
            "read only with --public. With --holdout or --half-width no file is read."
        ),
    ] = None,
    *,
    arms: Annotated[str | None, Option(help="Names of the arms, as a,b,c. Default: the file's.")] = None,
    users: Annotated[
        int | None, Option(min=1, help="Number of users, one decision each. Default: the file's.")
    ] = None,
    target: Annotated[float, Option(help="Share of the non-private uplift to retain, in (0, 1).")] = 0.9,
    certainty: Annotated[
        float, Option(help="Probability with which the target is to be met, in (0, 1).")
    ] = 0.9,
    epsilon: Annotated[float, Option(help="Largest epsilon that the plan may propose.")] = 10.0,
    promise: Annotated[
        float, Option(help="Epsilon for which the plan computes the number of users needed.")
    ] = 1.0,
    delta: Annotated[
        float, Option(help="Probability with which the central guarantee may fail, in (0, 1).")
    ] = 1e-6,
    base_rate: Annotated[
        _Numbers, Option(help="Mean reward of a random arm, in reward units: NUMBER or LOW:HIGH.")
    ] = None,
    effect: Annotated[
        _Numbers,
        Option(
            help="Mean reward of each user's best arm, minus that of a random arm, in reward units: NUMBER "
            "or LOW:HIGH."
        ),
    ] = None,
    personal: Annotated[
        _Numbers,
        Option(
            help="Part of the effect, in [0, 1], that the best single arm for everyone misses: NUMBER or "
            "LOW:HIGH."
        ),
    ] = None,
    rates: Annotated[
        _Numbers,
        Option(
            help="Mean reward of every arm if all users got it, in reward units: mail=LOW:HIGH,call=NUMBER."
        ),
    ] = None,
    smoothness: Annotated[
        str | None,
        Option(
            help="Distance along a column over which rewards stay similar: smooth, medium or rough; or "
            "NUMBER or LOW:HIGH, as shares of the column's range."
        ),
    ] = None,
    trust: Annotated[
        list[str] | None,
        Option(
            help="Trust model: central, local or distributed (two aggregators, experimental). Repeatable. "
            "Default: central and local."
        ),
    ] = None,
    public: Annotated[
        bool,
        Option(
            "--public",
            help="Declare that the table named in the file is public, and simulate users by resampling it. "
            "Without this option no table is read.",
        ),
    ] = False,
    seconds: Annotated[
        float,
        Option(
            min=0.0,
            help="Seconds after which no further world is started. A first answer is always computed.",
        ),
    ] = 60.0,
    worlds: Annotated[int, Option(min=2, help="Largest number of simulated worlds.")] = 24,
    jobs: Jobs = -1,
    seed: Annotated[int, Option(min=0, help="Seed of the first world; later worlds count up.")] = 1_000_000,
    cache: Annotated[
        Path | None, Option(help="File of finished simulations, for reuse by later runs. Default: none.")
    ] = None,
    holdout: Annotated[
        float | None,
        Option(
            help="Share of the users in the control group, from .01 to .5. The command then says how wide "
            "the interval of policy minus control will be, and nothing else."
        ),
    ] = None,
    half_width: Annotated[
        float | None,
        Option(
            help="Half width, in reward units, that this interval shall have. The command names the "
            "smallest holdout for it."
        ),
    ] = None,
    looks: Annotated[int, Option(min=1, help="Number of looks at the comparison.")] = 4,
    rate: Annotated[
        float | None, Option(help="Expected share of yes among yes/no rewards, in (0, 1).")
    ] = None,
    sd: Annotated[
        float | None,
        Option(help="Expected standard deviation of rewards that are not yes/no, with --range."),
    ] = None,
    reward_range: Annotated[
        str, Option("--range", help="Public range LOW:HIGH of the reward in the comparison.")
    ] = "0:1",
    metrics: Annotated[
        int, Option(min=0, help="Number of yes/no metrics that are compared beside the reward.")
    ] = 0,
    out: Annotated[Path | None, Option(help="Folder for plan.json and plan.png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the cost of privacy under each trust model, before any data is collected.

    The command prints an answer once it has simulated enough worlds, and then better ones until the time is
    up. If the time is up first, the answer that it prints is marked as preliminary.

    With --holdout or --half-width it plans the comparison with a control group instead, at the epsilon of
    --promise: dpbandits plan --holdout .1 --looks 4 --rate .01 --users 100000
    """
    if holdout is not None or half_width is not None:
        if trust not in (None, ["central"]):
            raise InvalidParameter(
                "trust: --holdout and --half-width plan an interval of a central policy: leave out --trust"
            )
        _plan_readout(
            users=users,
            half_width=half_width,
            as_json=as_json,
            control={} if holdout is None else {"share": holdout},
            compared={"looks": looks, "metrics": {f"metric_{number}": bool for number in range(metrics)}},
            privacy={"epsilon": promise, "delta": delta},
            reward={"rate": rate, "sd": sd, "reward_range": range_in(reward_range)},
        )
        return
    if people is None:
        raise InvalidParameter("people: pass a TOML file of facts, or plan a comparison with --holdout .1")
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
            raise InvalidParameter(f"{', '.join(given)}: with --public the table sets this, leave it out")
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
            raise InvalidParameter("users: the number is missing: set it in [plan], or pass --users 50000")
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


def _plan_readout(
    *,
    users: int | None,
    half_width: float | None,
    as_json: bool,
    control: dict[str, Any],
    compared: dict[str, Any],
    privacy: dict[str, Any],
    reward: dict[str, Any],
) -> None:
    from dpbandits.central import Control, Readout
    from dpbandits.lab.planning import plan_readout
    from dpbandits.privacy import JointDP

    if users is None:
        raise InvalidParameter("users: the number is missing: pass --users 50000")
    readout = Readout(control=Control(arm="uniform", **control), **compared)
    found = plan_readout(users=users, privacy=JointDP(**privacy), readout=readout, **reward)
    if as_json:
        share = None if half_width is None else found.smallest_share(half_width)
        typer.echo(json.dumps(found.to_dict() | {"wanted": half_width, "smallest_share": share}, indent=1))
        return
    console().print(str(found), soft_wrap=True)
    if half_width is not None:
        console().print(found.needed(half_width), soft_wrap=True)


def _belief(text: str) -> Any:
    if ":" in text:
        return range_in(text)
    try:
        return float(text)
    except ValueError:
        return text


def _rates(text: str) -> dict[str, Any]:
    said = [[part.strip() for part in one.rpartition("=")] for one in names_in(text)]
    if any(not sign for _, sign, _ in said):
        raise InvalidParameter(
            "rates: expected ARM=NUMBER or ARM=LOW:HIGH for every arm, separated by commas"
        )
    found = {label: _belief(value) for label, _, value in said}
    if len(found) < len(said):
        raise InvalidParameter("rates: an arm is named twice")
    return found


def _show(found: "PrivacyPlan") -> None:
    if found.preliminary:
        error_console().print(f"{found.worlds} worlds, {found.seconds:.0f} s: too few worlds for an answer")
        return
    console().print(str(found), soft_wrap=True)
    console().print()
    error_console().print(f"{found.worlds} worlds, {found.seconds:.0f} s", soft_wrap=True)
