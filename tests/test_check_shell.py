"""Shell scripts as `gdpo check` reads them: a value is what bash gives the trainer, or counts as unread."""

import sys
from contextlib import suppress
from random import Random

import pytest
from shell_scripts import HAND, as_script, given_by_bash, random_script

import gdpo_core as gc
from gdpo_core.checking.readers.shell import read_shell
from gdpo_core.checking.readers.sources import Source, Unread

WITH_BASH_4 = pytest.mark.skipif(sys.platform == "darwin", reason="bash 3 of macOS reads {fd}> and &>> in another way")
OPEN = object()  # a value that only a run would tell


def read(script):
    """Return the options of the trainer's one command in a script, by their names, with `OPEN` for what is unread.

    The number of processes, which may come from any script that is sourced, is left out where it is unread.
    """
    (source,) = [source for source in read_shell(script, "a.sh") if source.mark.startswith("trl")]
    values = {key: OPEN if isinstance(entry.value, Unread) else entry.value for key, entry in source.entries.items()}
    return {key: value for key, value in values.items() if value is not OPEN or key != "NPROC_PER_NODE"}


@pytest.mark.parametrize(
    "after",
    [
        *("2>&1", "2>file", "{fd}>x", "&>x", "&>>x", ">|x", "> x", "<<<8", "<<< '8 9'", ">x 2>&1 <y", "&> x &"),
        *("> >(tee log)", "2> >(tee log) > x", "> >(tee log | cat) 2>&1", "<<EOF\n9\nEOF", "| tee x", "\\\n  2>&1"),
    ],
)
def test_a_redirection_is_no_value(after):
    assert read(f"trl grpo --n 8 {after}") == {"n": 8}
    assert read(f"trl grpo {after.partition('|')[0] if after[0] == '|' else ''} --n 8") == {"n": 8}


def test_a_word_next_to_a_redirection_stays():
    assert read("trl grpo --n 8 '2'>x --m a2>x --k 7 >x 6") == {"n": [8, 2], "m": "a2", "k": [7, 6]}
    assert read("trl grpo --n <(cat x) --m 8 <(cat)") == {"n": OPEN, "m": OPEN}


@pytest.mark.parametrize(
    ("script", "n"),
    [
        ("N=8; ((N+=4))", OPEN),
        ("N=8; ((N == 4)); (( N <= 4 ))", 8),
        ("N=8; let N=4", OPEN),
        ("N=8; for ((N=0; N<2; N++)); do :; done", OPEN),
        ("N=8; (N=4)", OPEN),
        ("N=8; N=4 true $N", 8),
        ("N=8; N=4 N=$N true", 8),
        ("N=8; [ $X ] && N=4", OPEN),
        ("N=8; [ $X ] || exit 1; N=4", 4),
        ("shopt -s lastpipe; N=8; echo 4 | read N", OPEN),
        ("f() { N=$2; }; f $X 8", OPEN),
        ("N=8; for N in 1 2; do :; done", OPEN),
        ("N=8; for x in 1 2; do N=4; done", OPEN),
        ("N=8; for x in 1 2; do N=4; break; N=8; done", OPEN),
        ("N=8; while read N; do :; done <x", OPEN),
        ("N=8; read -r N", OPEN),
        ("N=8; unset N", OPEN),
        ("N=8; mapfile -t N <x", OPEN),
        ("N=8; readarray N <x", OPEN),
        ("N=8; printf -v N %s 4", OPEN),
        ("N=8; getopts ab N", OPEN),
        ("N=8; f() { local N=4; }; f", OPEN),
        ("f() { N=4; g; }; g() { N=5; }; f", OPEN),
        ("N=8; f() { N=4; [ $X ] && return; N=8; }; f", OPEN),
        ("N=8; f() { [ $X ] && N=4; }; f", OPEN),
        ("N=8; if [ $X ]; then f() { N=4; }; fi; f", OPEN),
        ("N=8; function f { f; N=4; }; f", OPEN),
        ("N=4; N=(8)", 8),
        ("N=(8 4)", 8),
        ("N=8; N+=(2)", 8),
        ("N=(4 2); N[X]=8", OPEN),
        ("declare -i N=4+4", OPEN),
        ("declare -i N; N=4+4", OPEN),
        ("declare -n M=N; N=8; M=4", OPEN),
        ("readonly N=8; N=4", OPEN),
        ("N=8; case $X in a) N=4;; esac", OPEN),
        ("if [ $X ]; then N=4; fi", OPEN),
        ("N=8; source other.sh", 8),
        ("source .venv/bin/activate; N=${N:-8}", 8),
        ('N=8; eval "$(conda shell.bash hook)"', 8),
        ("N=; N=${N:-8}", 8),
        ("N=~/x", OPEN),
        ("N=$'8'", 8),
        ("N=8 # N=4\n# N=4", 8),
        ("N=8\ncat <<EOF >x\nN=4\nEOF", 8),
        ("N=8; [[ $X > 4 && ( -n $N ) ]]", 8),
    ],
)
def test_what_a_command_gets_of_a_variable(script, n):
    assert read(f"{script}\ntrl grpo --n $N --k 1") == {"n": n, "k": 1}
    assert read(f'{script}\ntrl grpo --n "$N" --k 1') == {"n": n, "k": 1}


def test_words_that_may_be_there_are_neither_told_nor_left_out():
    array = "A=(--n 4)\nif [ $X ]; then A+=(--m 2 --k); fi\n"
    assert read(array + 'trl grpo "${A[@]}"') == {"n": 4, "m": OPEN, "k": OPEN}
    assert read(array + 'trl grpo "${A[@]}" 3') == {"n": OPEN, "m": OPEN, "k": OPEN}  # The 3 may be another n.
    assert read(array + 'trl grpo "${A[@]}" --m 3') == {"n": 4, "m": 3, "k": OPEN}
    either = "A=(--n 4)\nif [ $X ]; then A=(--m 2); else A=(--k 3); fi\n"
    assert read(either + 'trl grpo --l 1 "${A[@]}"') == {"l": 1, "n": OPEN, "m": OPEN, "k": OPEN}
    assert read("for x in $X; do A+=(--r $x); done\ntrl grpo --n 4 ${A[@]}") == {"n": 4, "r": OPEN}


def test_a_word_that_may_hold_options_opens_what_comes_before():
    (source,) = read_shell("A=$(cat x)\ntrl grpo --n 8 --m 2 $A --k 1", "a.sh")
    unread = {key: isinstance(entry.value, Unread) for key, entry in source.entries.items()}
    assert (unread, source.parents) == ({"n": True, "m": True, "k": False}, ("$A",))
    assert read("A=$(nproc)\ntrl grpo --n 8 --m $A --k 1") == {"n": 8, "m": OPEN, "k": 1}
    options = "A='--n 4'\n[ $X ] && A=\"$A --m 2\"\n"
    assert read(options + "trl grpo --n 8 --flag $A --k 1") == {"n": OPEN, "flag": OPEN, "k": 1}
    source, _ = read_shell('f() {\n trl grpo --n 8 --m 2 "$@" --k 1\n}\n$X f --m 3\n', "a.sh")
    assert source.parents == ("the arguments of its function",)
    assert isinstance(source.entries["m"].value, Unread) and source.entries["n"].value == 8


def test_a_command_that_may_run_twice_is_told_what_does_not_change():
    assert read('N=8\nf() { trl grpo --n $N; }\n"$1"\n') == {"n": 8}  # Whoever calls it has only this value.
    assert read('N=8\nf() { trl grpo --n $N; }\n"$1"; N=4\n') == {"n": OPEN}
    assert read("N=8; M=2\nfor x in 1 2; do trl grpo --n $N --m $M; N=4; done\n") == {"n": OPEN, "m": 2}


def test_a_call_of_a_function_is_told_with_its_words():
    script = (
        'f() {\n  local x=$1; shift 2\n  trl grpo --n $N --k 1 "$@" --m 2\n}\nN=8\nf a "$S" --l 3\nN=4; f a b --m 5\n'
    )
    (first, second) = read_shell(script, "a.sh")
    assert {key: entry.value for key, entry in first.entries.items()} == {"n": 8, "k": 1, "l": 3, "m": 2}
    assert {key: entry.value for key, entry in second.entries.items()} == {"n": 4, "k": 1, "m": 2}
    assert (first.place, second.place) == ("a.sh:6", "a.sh:7")
    other = read_shell(script + "trap f EXIT\n", "a.sh")  # Something else calls it too, with other arguments.
    assert len(other) == 3 and other[0].parents == ("$@",)
    late = "f() { N=4; g; trl grpo --n $N --k 1; }\ng() { N=8; }\nf\n"
    assert read(late) == {"n": OPEN, "k": 1}


def test_what_branches_set_is_one_of_the_values_that_are_written():
    script = "N=4\nif [ $X ]; then N=8; fi\ncase $Y in a) A=(--k 1);; *) A=(--k 2 --l 3);; esac\n"
    (source,) = read_shell(script + 'trl grpo --n $N "${A[@]}"', "a.sh")
    texts = {key: entry.value.text for key, entry in source.entries.items()}
    assert texts == {"n": "one of 4, 8", "k": "one of 1, 2", "l": "3"}


def test_what_a_comment_cuts_off_a_command_and_what_a_name_behind_a_dollar_sets_stay_open():
    cut = "trl grpo --m 1 \\\n  # --n 8 \\\n  --n 5 \\\n  --beta 0.1\n"
    (trainer, fragment) = read_shell(cut, "a.sh")
    assert trainer.entries["m"].value == 1 and "n" not in trainer.entries
    assert all(isinstance(entry.value, Unread) for entry in fragment.entries.values())
    assert read_shell("--n 5 --beta 0.1", "a.sh")[0].entries["n"].value == 5  # A reader may paste options alone.
    assert read('A=1; for x in A=5 B=6; do export "$x"; done; trl grpo --n $A') == {"n": OPEN}
    assert read('B=A; A=1; export "$B=5"; trl grpo --n $A') == {"n": OPEN}
    assert read("A=1; export $(grep x .env | xargs); trl grpo --n $A") == {"n": 1}  # like a script that is sourced


EXPORTS = (
    ("", None),
    ("P=2", None),
    ("export P=2", 2),
    ("P=2; export P", 2),
    ("export P; P=2", 2),
    ("if [ $X ]; then export P=2; fi", None),
    ("if [ $X ]; then export P; fi; P=2", None),
    ("set -a; P=2", None),  # It is exported, but the reader does not follow `set -a`.
)


def test_a_variable_reaches_the_trainer_only_if_it_is_exported():
    for before, told in EXPORTS:
        script = f"{before}\ntrl grpo --n 8".replace("P", "NPROC_PER_NODE")
        assert read(script).get("NPROC_PER_NODE") == told
    assert read("NPROC_PER_NODE=4 trl grpo --n 8")["NPROC_PER_NODE"] == 4


def compare(scripts, folder):
    """Return how many entries of trainers' commands are told, each of which has to be what bash gives the trainer.

    A key that bash gives has to be there, unless the command is known to hold further options.
    """
    told = 0
    for script, runs in zip(scripts, given_by_bash(scripts, folder), strict=True):
        sources = [source for source in read_shell(script, "a.sh") if "trl" in source.mark]
        for number, times in runs.items():
            here = [source for source in sources if source.mark.split()[2] == number] or [Source("a.sh", {})]
            for words in times:
                (bash,) = read_shell(as_script([*words, "--end"]), "a.sh")
                wrong, right = min(differences(source, bash) for source in here)  # one for each call of a function
                assert not wrong, (script, wrong, words)
                told += right
    return told


def differences(source, bash):
    """Return two things: the keys that a source of a command tells in another way than the words that bash gives, and
    the number of the keys that it tells in the same way.
    """
    known = {key: e.value for key, e in source.entries.items() if not isinstance(e.value, Unread)}
    wrong = [key for key in known if key not in bash.entries or repr(bash.entries[key].value) != repr(known[key])]
    missing = set() if source.parents else set(bash.entries) - set(source.entries) - {"end"}
    return [*wrong, *missing], len(known) - len(wrong)


@WITH_BASH_4
def test_values_of_scripts_written_by_hand_are_those_that_bash_gives(tmp_path):
    assert compare(HAND, tmp_path) > 100


@WITH_BASH_4
@pytest.mark.parametrize("first", [0, pytest.param(40, marks=pytest.mark.slow)])
def test_values_of_random_scripts_are_those_that_bash_gives(first, tmp_path):
    seeds = range(first, first + (100 if first else 40))
    assert compare([random_script(seed) for seed in seeds], tmp_path) > 20


@pytest.mark.parametrize("first", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_a_script_that_is_cut_or_garbled_is_read(first):
    for seed in range(first, first + (100 if first else 40)):
        random, script = Random(seed), random_script(seed)
        for _ in range(5):
            at = random.randrange(len(script))
            piece = random.choice(("", *"()'\"{}$`;|&<>\n#\\[]\0\1", "fi", "done", "esac", " do "))
            script = script[:at] + piece + script[at + random.randrange(9) :]
            read_shell(script, "a.sh")


@pytest.mark.parametrize(
    "text", ["for x in a; do ", "(", "((", "${", "$(", '"', "a() {\n", "case a in a) ", "{ ", "<(", "if a; then ", "a["]
)
def test_a_script_of_one_thing_again_and_again_is_read_quickly(text):
    for script in (text * 3000 + "trl grpo --n 8\n", (text * 29 + "\ntrl grpo --n $N\n" + "done; " * 30) * 20):
        with suppress(gc.InputError):
            read_shell(script, "a.sh")


def test_a_script_of_too_many_commands_inside_one_another_is_refused():
    with pytest.raises(gc.InputError, match=r"a.sh: expected at most 30 commands such as if inside one another"):
        read_shell("if a; then " * 40, "a.sh")
