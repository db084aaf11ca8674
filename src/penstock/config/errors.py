"""The one way in which a setting is refused."""

from __future__ import annotations


class BadSetting(ValueError):
    """A setting that cannot be taken, in words that name the key, the value and what would be allowed.

    The same words reach the terminal of `penstock serve` and the client of IncrementalAlterConfigs. `value` is None
    where it must not be shown, or where no single value is to blame: an unknown name, two settings at odds.
    """

    def __init__(self, key: str, value: str | None, allowed: str) -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        said = key if value is None else f"{key}={value}"
        super().__init__(f"{said}: {allowed}")


def unknown_setting(key: str, known: list[str], *, where: str) -> BadSetting:
    """The refusal of a name that is not in a table, with the likeliest one meant."""
    import difflib  # 7 ms that only a refusal has to pay

    near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    hint = f"; did you mean {near[0]}?" if near else "; `penstock settings` lists all settings"
    return BadSetting(key, None, f"not a setting of {where}{hint}")
