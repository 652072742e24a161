"""Chooses which call sites of a program an engine computes."""

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fourier_attn.choices import check_choice
from fourier_attn.optics.engine_spec import Engine
from fourier_attn.optics.planner import Plan
from fourier_attn.optics.presets import preset
from fourier_attn.optics.programs.call_sites import KINDS, CallSite
from fourier_attn.optics.programs.transforms import Optics, optics, plan_site


@dataclasses.dataclass(frozen=True)
class Rule:
    """Says which engine computes some call sites. Every condition that is given must hold.

        >>> second = Rule("chip_11x11", scope="block_1")  # a scope that contains "block_1"
        >>> exact = Rule(None)  # all others

    Args:
      engine: engine or name of a preset; None: exact.
      kinds: "fft", "ifft", "rfft", "irfft", "conv", or "matrix" for products with a constant DFT matrix.
        Default (), any but "matrix".
      scope: regular expression that is searched in the name scope, and in file, line and function of the
        call. Default "", any.
      sites: numbers of call sites, as `optics.report` lists them. Default (), any.
      smallest: least number of transformed points. Default 0.
      largest: most transformed points. Default None, any.
      prefer: plan for sizes that the engine does not have, "error" or "passes". Default "error".
    Raises: ValueError for an unknown kind, preset or plan.
    """

    engine: Engine | str | None
    kinds: tuple[str, ...] = ()
    scope: str = ""
    sites: tuple[int, ...] = ()
    smallest: int = 0
    largest: int | None = None
    prefer: str = "error"

    def __post_init__(self) -> None:
        for name, kind in (("kinds", str), ("sites", int)):
            if isinstance(getattr(self, name), kind):  # one of them alone
                object.__setattr__(self, name, (getattr(self, name),))
        for kind in self.kinds:
            check_choice("kinds", kind, KINDS)
        try:
            re.compile(self.scope)
        except re.error as error:
            raise ValueError(f"scope={self.scope!r} is not a regular expression: {error}") from None
        object.__setattr__(self, "engine", built(self.engine))

    def holds(self, site: CallSite) -> bool:
        """Says whether the rule is about a call site.

        Args:
          site: the call site.
        """
        points = math.prod(site.sizes)
        return (
            (site.kind in self.kinds if self.kinds else site.kind != "matrix")
            and (not self.sites or site.index in self.sites)
            and bool(re.search(self.scope, f"{site.scope} {site.line.rpartition('/')[2]}"))
            and self.smallest <= points
            and (self.largest is None or points <= self.largest)
        )


def built(engine: Engine | str | None) -> Engine | None:
    """Returns an engine from itself or from the name of a preset."""
    if not isinstance(engine, Engine | str | None):
        raise ValueError(f"engine={engine!r} must be an Engine, the name of a preset, or None for exact")
    return preset(engine) if isinstance(engine, str) else engine


class Choice(NamedTuple):
    """Holds a call site and how it is computed.

    Args:
      site: the call site.
      light: its engine; None: exact.
      plan: what the engine takes for one run; None: exact.
      why: reason for which it is exact.
    """

    site: CallSite
    light: Optics | None
    plan: Plan | None
    why: str


def choose(sites: Iterable[CallSite], rules: Sequence[Rule], data: frozenset[int] | None) -> list[Choice]:
    """Returns how each call site is computed: by the first rule that holds for it.

    Args:
      sites: call sites.
      rules: rules; the last one must hold for every call site.
      data: arguments of the function on which the operands of optical call sites depend; None: any.
    Raises: ValueError for a rule that names no call site, and for one that names a call site by number that
      its engine cannot compute.
    """
    sites = list(sites)
    for rule in rules[:-1]:
        if missing := [number for number in rule.sites if not 0 <= number < len(sites)]:
            raise ValueError(
                f"rule {described(rule)} names call sites {missing}, but there are {len(sites)}, from 0 on; "
                "optics.report lists them"
            )
        if sites and not any(rule.holds(site) for site in sites):
            raise ValueError(
                f"rule {described(rule)} names none of the {len(sites)} call sites; optics.report lists them"
            )
    matrices = Rule(None, kinds=("matrix",))
    return [_chosen(site, next(r for r in (*rules, matrices) if r.holds(site)), data) for site in sites]


def _chosen(site: CallSite, rule: Rule, data: frozenset[int] | None) -> Choice:
    if rule.engine is None:
        product = "a product with a DFT matrix, which Rule(engine, kinds=('matrix',)) takes"
        return Choice(site, None, None, product if site.kind == "matrix" else "by a rule")
    why = site.why
    if not why and data is not None and not data & site.arguments:
        why = "depends on no argument of argnums"
    if not why:
        assert isinstance(rule.engine, Engine)
        light = optics(rule.engine, rule.prefer)
        try:
            return Choice(site, light, plan_site(site, light), "")
        except ValueError as error:
            why = str(error)
    if rule.sites:
        raise ValueError(
            f"call site {site.label} at {site.line} cannot go to the engine: {why}; leave it out of sites="
            f"{rule.sites}"
        )
    return Choice(site, None, None, why)


def described(rule: Rule) -> str:
    """Describes a rule by the conditions that it sets."""
    fields = {field.name: field for field in dataclasses.fields(rule) if field.name != "engine"}
    parts = [
        f"{name}={getattr(rule, name)!r}"
        for name, field in fields.items()
        if getattr(rule, name) != field.default
    ]
    return f"Rule({', '.join(parts)})"


def as_rules(engine: Engine | str, rules: Iterable[Any]) -> tuple[Rule, ...]:
    """Returns the rules, with one for all other call sites at the end.

    Raises: ValueError for something that is not a rule.
    """
    rules = (rules,) if isinstance(rules, Rule) else tuple(rules)
    for rule in rules:
        if not isinstance(rule, Rule):
            raise ValueError(f"rules has {rule!r}; give optics.Rule(engine, ...)")
    return (*rules, Rule(engine))
