"""The placeholders in the sentences of the rules, and the values of a configuration that replace them."""

from collections.abc import Sequence
from string import Template
from typing import Any

from gdpo_core.checking.evaluate import Known
from gdpo_core.checking.readers.sources import Unread
from gdpo_core.checking.rules import Condition, Rules
from gdpo_core.shared.words import clip, count, listing


class _Sentence(Template):
    braceidpattern = r"[A-Za-z_][\w.]*"  # in braces a placeholder may be a key of the configuration, with dots


class Filled:
    """A function that puts values of the configuration into a sentence.

    values: for each placeholder that is no key of the configuration, such as "weights", the text that replaces it.
    known: the configuration, whose keys with a dot are placeholders too.
    """

    def __init__(self, values: dict[str, str], known: Known) -> None:
        self.values, self.known = values, known

    def __call__(self, text: str, when: Sequence[Condition]) -> str:
        """Return a text with its placeholders replaced.

        ${a.b} is replaced by the value of the key a.b, $value by the value of the first condition's key, and a
        placeholder in `values` by its text. Any other placeholder stays.

        when: the conditions of the fact, the trap or the other rule that the text belongs to.
        """
        template = _Sentence(text)
        values = self.values | ({"value": _written(self.known.value(when[0].key))} if when else {})
        keys = {name: _written(self.known.value(name)) for name in template.get_identifiers() if "." in name}
        return template.safe_substitute(values | keys)


def _written(value: Any) -> str:
    return clip(value.text if isinstance(value, Unread) else str(value))


def placeholder_values(rules: Rules, known: Known) -> dict[str, str]:
    names, weights = (known.values(key) if key else None for key in (rules.rewards, rules.weights))
    n, w = (len(x) if isinstance(x, list) else 0 for x in (names, weights))
    # The weights that are there go to the first rewards, in the order in which the trainers assign them. A reward
    # without a weight gets 1.
    fitting = [*(weights[:n] if isinstance(weights, list) else []), *[1.0] * (n - w)]
    return {
        "batch": f"{known.value('answers')}",
        "process_batch": f"{known.value('answers_of_a_process')}",
        "group_size": f"{known.value(rules.group_size)}",
        "reward_count": count(n, "reward"),
        "weight_count": count(w, "weight"),
        "weights": listing(f"{x}" for x in weights) if isinstance(weights, list) else "",
        "surplus": listing(map(str, weights[n:])) if isinstance(weights, list) else "",
        "fitting": f"[{', '.join(map(str, fitting))}]",
        "spaced_fitting": " ".join(f"{x:g}" if isinstance(x, float) else str(x) for x in fitting),
    }
