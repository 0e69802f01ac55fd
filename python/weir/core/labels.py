"""Selectors of labels: {"region": "!in(eu, us)"}. One machine has no labels, so that nothing is chosen by them; what cannot be one is refused."""
from __future__ import annotations

import re
from typing import Any

NAME_MAX = 63
PREFIX_MAX = 253
_NAME = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_KEY = re.compile(rf"(?:(?P<prefix>{_NAME}(?:\.{_NAME})*)/)?{_NAME}")
# "a", "!a", "in(a, b)", "!in(a, b)", or nothing.
_CONDITION = re.compile(rf"!?(?:(?:in)?\({_NAME}(?:, ?{_NAME})*\)|{_NAME})|")
_RULE = f"at most {NAME_MAX} letters, digits, '.', '_' and '-', the first and the last a letter or digit"


def check_selector(value: Any, where: str = "") -> None:
    """TypeError or ValueError for what is no label_selector; `where` begins the message.

    >>> check_selector({"region": "!in(eu, us)"})
    >>> check_selector({"region": "-eu"})
    Traceback (most recent call last):
    ValueError: Invalid label selector value '-eu' for 'region': it is a value (at most 63 letters, digits, '.', '_' and '-', the first and the last a letter or digit), in(value, …), or either with ! in front
    """
    if value is None:
        return
    if not isinstance(value, dict):
        raise TypeError(f"{where}The type of keyword 'label_selector' must be dict or None, but received type {type(value)}")
    for key, condition in value.items():
        if not isinstance(key, str) or not isinstance(condition, (str, type(None))):
            raise TypeError(f"{where}label_selector has texts as keys and values, not {key!r}: {condition!r}")
        found = _KEY.fullmatch(key)
        if found is None or len(found["prefix"] or "") > PREFIX_MAX:
            raise ValueError(f"{where}Invalid label key {key!r}: it is a name ({_RULE}), with or without a domain and '/' in front")
        if condition is not None and not _CONDITION.fullmatch(condition):
            raise ValueError(f"{where}Invalid label selector value {condition!r} for {key!r}: it is a value ({_RULE}), in(value, …), or either with ! "
                             "in front")


def check_fallbacks(value: Any, where: str = "") -> None:
    """The same for a fallback_strategy: a list of dicts, each of them a label_selector under that name.

    >>> check_fallbacks([{"label_selector": {"region": "eu"}}])
    >>> check_fallbacks([{"num_cpus": 1}])
    Traceback (most recent call last):
    ValueError: Unsupported option found: 'num_cpus'. A fallback_strategy is a list such as [{'label_selector': {'region': 'eu'}}]
    """
    if value is None:
        return
    if not isinstance(value, list):
        raise TypeError(f"{where}The type of keyword 'fallback_strategy' must be list or None, but received type {type(value)}")
    for one in value:
        if not isinstance(one, dict) or not one:
            raise ValueError(f"{where}Each element in fallback_strategy must be a dictionary with a label_selector, not {one!r}")
        for name in one:
            if name != "label_selector":
                raise ValueError(f"{where}Unsupported option found: {name!r}. A fallback_strategy is a list such as "
                                 "[{'label_selector': {'region': 'eu'}}]")
        check_selector(one["label_selector"], where)
