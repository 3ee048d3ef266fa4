"""The notes beside the dots of the drop: on the tie that the headline is about, and on where its answers go.

In the drop each answer is a dot. It falls onto the line of one method, to its advantage there, and then slides on to
its advantage on the line of the other method.
"""

from itertools import pairwise

from gdpo_core.board.facts import BoardFacts
from gdpo_core.shared.words import listing, signed, word

APART_ON_A_LINE = 0.25  # how far apart two advantages are that get notes of their own


def notes(facts: BoardFacts) -> list[dict]:
    """Return the notes beside the dots, each as a dict with three keys.

    - "side": 0 for the line of the method on the left, 1 for the line of the method on the right;
    - "answers": the numbers, from 0, of the answers that the note is about;
    - "lines": two lines of text.

    The first note is about `facts.pile`, the tie that the board outlines. If it is a tie of the method on the left,
    further notes say which advantages the method on the right gives the tied answers. If neither method ties answers
    with different marks, the only note is about the right answer that the most wrong ones overtake, if there is one.
    """
    if not facts.pile:
        return _overtaken(facts)
    side, right = (facts.base, facts.chosen)[facts.side], facts.chosen.advantages
    shared = f"{len(facts.pile)} answers, one advantage: {signed(side.advantages[facts.pile[0]])}"
    whose = f"{len({facts.state.marks[i] for i in facts.pile})} combinations of marks"
    whose = whose if facts.right is None else _whose(facts, facts.pile)
    noted = [{"side": facts.side, "answers": list(facts.pile), "lines": [shared, whose]}]
    for cluster in [] if facts.side else _clusters(facts.pile, right):
        words = list(dict.fromkeys(signed(right[i]) for i in cluster))
        where = f"{words[0]} to {words[-1]}" if len(words) > 2 else listing(words)
        noted.append({"side": 1, "answers": cluster, "lines": [_whose(facts, cluster), where]})
    return noted


def _overtaken(facts: BoardFacts) -> list[dict]:
    """Return a list with one note, on the right answer that the most wrong answers overtake; [] if none is overtaken.

    A wrong answer overtakes a right one if it has the smaller advantage of the two under the method on the left, and
    the larger one under the method on the right. The note stands at the line of the method on the left.
    """
    level = facts.base.level
    turned = sorted(high for low, high in facts.chosen.wrong_order if level[low] < level[high])
    if not turned:
        return []
    most = max(turned, key=turned.count)
    many = turned.count(most)
    words = f"{word(many)} wrong answer{' overtakes' if many == 1 else 's overtake'} it"
    return [{"side": 0, "answers": [most], "lines": [_whose(facts, [most]), words]}]


def _clusters(answers: tuple[int, ...], a: tuple[float, ...]) -> list[list[int]]:
    """Return the numbers of answers in lists, one for each cluster on a line of advantages, the lowest first.

    Clusters lie more than APART_ON_A_LINE apart.

    a: the advantages of all answers of the group.
    """
    ordered = sorted(answers, key=lambda i: a[i])
    ends = [n for n, (i, j) in enumerate(pairwise(ordered), 1) if a[j] - a[i] > APART_ON_A_LINE]
    return [ordered[start:end] for start, end in pairwise([0, *ends, len(ordered)])]


def _whose(facts: BoardFacts, answers: tuple[int, ...] | list[int]) -> str:
    """Return words for a set of answers: “answer 3, right” for a single one, “two right, one wrong” for several.

    Where no reward says which are right, they are “answer 3” or “three answers”.
    """
    passed = [facts.right is not None and facts.right[i] for i in answers]
    if len(answers) == 1:
        return f"answer {answers[0] + 1}" + ("" if facts.right is None else ", right" if passed[0] else ", wrong")
    if facts.right is None:
        return f"{word(len(answers))} answers"
    kinds = {"right": sum(passed), "wrong": len(answers) - sum(passed)}
    return listing((f"{word(n)} {kind}" for kind, n in kinds.items() if n), link="")
