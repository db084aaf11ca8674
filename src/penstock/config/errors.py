"""The error for an invalid setting."""

from __future__ import annotations


class BadSetting(ValueError):
    """An invalid setting. The message names the key, the value and the allowed values.

    `penstock serve` prints the message, and IncrementalAlterConfigs returns it. `value` is None if it is a secret, or
    if no single value is wrong: an unknown name, or two settings that contradict each other.
    """

    def __init__(self, key: str, value: str | None, allowed: str) -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        assignment = key if value is None else f"{key}={value}"
        super().__init__(f"{assignment}: {allowed}")


def unknown_setting(key: str, known: list[str], *, where: str) -> BadSetting:
    """The error for an unknown name, with the closest known name."""
    import difflib  # takes 7 ms, so only an error pays for it

    near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    hint = f"; did you mean {near[0]}?" if near else "; `penstock settings` lists all settings"
    return BadSetting(key, None, f"not a setting of {where}{hint}")
