"""Shell scripts that start a trainer, by hand and at random, and what bash gives the trainer when it runs them."""

import shlex
import subprocess
from random import Random

# In place of the trainer: a function that writes the number of its command and its words into a file.
STUB = """trl() { printf '%s\\0' "$@" $'\\n' >> "$LOG"; }
FUNCNEST=3
for script in "$@"; do ( ulimit -t 2; LOG=$script.log; set --; . "$script" </dev/null >/dev/null 2>&1 ); wait; done
"""
# Scripts of one line or few, in each of which a value is easily read wrong.
HAND = (
    'echo | { A+=(--z); }; true && A+=(8); trl grpo 1 --h 8 "${A[@]}"',
    "f() { if true; then N=4; else declare N=8; fi; }; f; trl grpo 1 --k ${N:-3}",
    "N=8 && { N=4; } & wait; trl grpo 1 --n ${N:-3}",
    'for x in 1 2; do ARGS="--x 8"; done; ARGS="$ARGS --y 4"; trl grpo 1 --t 8 $ARGS --k 1',
    "N='a b'; trl grpo 1 --n \"y\"$N --m 2",
    "N='*'; trl grpo 1 --n $N",
    "N='a*'; trl grpo 1 --n \"$N\" --k a*b=3 --l x=*",
    "trl grpo 1 --n ~/x --m a=~/y --k ~nobody --l=~/z",
    "N=~/x:~/y; trl grpo 1 --n $N",
    "trl grpo 1 --n {a,b} --m {a} --k {} --l x{1..3}y --o {a,b --p 'x{a,b}'",
    "N={a,b}; trl grpo 1 --n $N",
    'IFS=,; N=1,2; trl grpo 1 --n $N --m "$N"',
    "N='1,2'; IFS=, read -r A B <<< \"$N\"; trl grpo 1 --n $N --a $A",
    "N=8; f() { local N=4; trl grpo 1 --n $N; }; f; trl grpo 2 --n $N",
    "N=8; f() { local M; N=4; }; trl grpo 1 --n $N; f; trl grpo 2 --n $N",
    "f() { N=8; }; f; N=4; f; trl grpo 2 --n $N",
    "N=8; case a in a) case b in b) N=4;; esac;; c) N=5;; esac; trl grpo 2 --n $N",
    "(case a in (a) N=5;; esac; trl grpo 1 --n $N); trl grpo 2 --n ${N:-3}",
    "N=8; cat <<A <<'B' >/dev/null && N=4\nN=5\nA\nN=6 'x\nB\ntrl grpo 2 --n $N --m 2",
    'N=$(cat <<EOF\nit\'s (a\nEOF\n); trl grpo 2 --n "$N" --m 2',
    'N=$(case x in x) echo 4;; esac); trl grpo 2 --n "$N" --m 2',
    "N=8; for i in 1 2; do trl grpo 1 --n $N; N=4; done",
    "N=8; for i in 1 2; do trl grpo 1 --n ${M:-$N} --k ${K:-1}; K=2; done",
    "N=8; while trl grpo 1 --n $N; ((N==8)); do N=4; done",
    "f() { trl grpo 1 --n ${N:-8}; }; f; N=5; f",
    "f() { trl grpo 1 --n ${N:-8}; }; N=5 f; f",
    'A=(--n 4); for i in 1 2; do A+=(--n 5); trl grpo 1 "${A[@]}" --k; A=(--m 3); done',
    'A=(--n 4 --k); for i in 1 2; do A+=(3); trl grpo 1 --z "${A[@]}"; done; trl grpo 3 "${A[@]}"',
    'A=(--n 4 --k 3); if true; then A+=(5); fi; trl grpo 3 "${A[@]}"',
    'A=(--n 4 --k 3); if true; then A=(--n 5); A=(--k 2); fi; trl grpo 3 --k 9 "${A[@]}"',
    'A=(--n 4 --k 3); if false; then A=(--n 5); else A=(--k 2); fi; trl grpo 3 --k 9 --n 1 "${A[@]}"',
    "A=(--n '' x); trl grpo 3 --z ${A[@]}",
    'A=(--n \'["a", "b"]\'); trl grpo 3 ${A[@]} --k "${A[*]}"',
    "A=(--n 'a b'); trl grpo 3 \"x${A[@]}y\" --k 1",
    'A=(1 2); A[0]=--x; trl grpo 3 --n 3 "${A[@]}"',
    'A=(--n 1); declare -a A; A+=(3); trl grpo 3 "${A[@]}"',
    "declare -A A=([n]=1); trl grpo 3 --n 2 ${A[n]} --k 1",
    "readonly N=8; N=4 true; trl grpo 3 --n $N",
    "declare -u N=a; N=b; trl grpo 3 --n $N",
    "declare -n M=N; N=8; M=4; trl grpo 3 --n $N",
    "N=8; M=N; printf -v $M 4; trl grpo 3 --k 1",
    "N=8; [[ a =~ (a|b) && -n $N ]] && N=4; trl grpo 3 --n $N",
    "N=8; true && { N=4; }; trl grpo 3 --n $N",
    "N=8; { N=4; } ; trl grpo 3 --n $N",
    "N=8; { N=4; } | cat; trl grpo 3 --n $N",
    "N=8; if true; then N=4; fi | cat; trl grpo 3 --n $N",
    "N=8; if ! N=4; then :; else trl grpo 3 --n $N; fi",
    "N=8; if false; then N=1; elif N=4; then trl grpo 3 --n $N; else N=2; fi; trl grpo 4 --n $N",
    "if true; then N=4; else N=5; fi; trl grpo 4 --n ${N:-3}",
    "unset N; N+=5; trl grpo 4 --n $N",
    "N=(8); N+=4; trl grpo 4 --n $N",
    'N=8; N+=(4); trl grpo 4 --n "${N[@]}" --k $N',
    "trl grpo 4 --n \"a\\\nb\" --k c\\\nd --m 'x\\\ny'",
    'trl grpo 4 --n $"hi" --k $\'a\\tb\' --l $\'ab\' --m a$ --o "b$" --p "$ x"',
    "trl grpo 4 --n ${N:-'a b'} --k ${N:-a b} --m \"${N:-'a'}\" --o \"${N:-a b}\"",
    'trl grpo 4 --n ${N:-"a b"} --k "${N:-"a b"}" --m "${N-}" --o ${N-}',
    "N=; trl grpo 4 --n ${N:-5} --k ${N-6} --m $N",
    'trl grpo 4 --n 5 --k "it\'s" --m \'say "x"\' --o a\\ b --p \\$N --q "\\$N" --r "\\x"',
    "trl grpo 4 --n 8#3 --k a#b # --m 3",
    "trl grpo 4 --n 8;#x\ntrl grpo 5 --n 3",
    "trl grpo 4 --n 8&trl grpo 5 --n 3;wait",
    "trl grpo 4 --n 2>/dev/null 3 --m 4>/dev/null",
    "N=8; ((N=((1+2)*(3+(4))))); trl grpo 4 --n $N",
    "N=8; (( N = ( (1) ) , M = 3 )); trl grpo 4 --n $N",
    "N=8; : $((N=3)); trl grpo 4 --n $N",
    'N=8; : "$((N++))"; trl grpo 4 --n $N',
    "N=8; : ${N:=3} ${M:=4}; trl grpo 4 --n $N --m $M",
    'N=8; eval "N=3"; trl grpo 4 --n $N',
    'set -- --n 3; trl grpo 4 --n 8 "$@"',
    'f() { trl grpo 4 --n 8 "$@"; }; f --n 3',
    'f() { trl grpo 4 --n 8 --m 2 "$@" --k 2; }; f --m 3 --k 1',
    "f() { trl grpo 4 --n 8 $*; }; f --n 3",
    "f() { trl grpo 4 --n 8 ${@}; }; f --n 3",
    'f() { A=("$@"); trl grpo 4 --n 8 "${A[@]}"; }; f --n 3',
    'f() { local A="$@"; trl grpo 4 --n 8 $A; }; f --n 3',
    "f() { trl grpo 4 --n 8 $1 $2; }; f --n 3",
    'f() { trl grpo 4 --n 8 "${@:1}"; }; f --n 3',
    'f() { trl grpo 4 --n 8 "${@}" --k; }; f --n 3',
    "f() { shift; trl grpo 4 --n 8 $@; }; f 1 --n 3",
    'A="--n 3"; if true; then A="$A --n 4"; fi; trl grpo 4 --n 8 $A',
    'A="--n 3"; if true; then A="$A --n 4"; fi; trl grpo 4 --n 8 --flag $A',
    'A=""; if true; then A="--n 4"; fi; trl grpo 4 --n 8 --flag $A',
    'A=(--n 3); true && A+=(--n 4); trl grpo 4 --n 8 --flag "${A[@]}"',
    "N=8; trap 'N=4' DEBUG; true; trap - DEBUG; trl grpo 4 --n $N",
    "N=8; alias x=y; trl grpo 4 --n $N",
    "N=8; until N=4; do :; done; trl grpo 4 --n $N",
    "N=8; for N; do :; done; trl grpo 4 --n $N",
    "N=8\nfor x in 1 2\ndo\n  N=4\ndone\ntrl grpo 4 --n $N",
    "N=8; select N in a b; do break; done <<< 1; trl grpo 4 --n $N",
    "N=8; function g { N=4; }; function h() { N=5; }; g; trl grpo 4 --n $N; h; trl grpo 5 --n $N",
    "N=8; g() ( N=4; trl grpo 3 --n $N ); g; trl grpo 4 --n $N",
    "N=8; g() if true; then N=4; fi; g; trl grpo 4 --n $N",
    "N=8; coproc { N=4; }; trl grpo 4 --n $N",
    "N=8; echo 3 | while read N; do :; done; trl grpo 4 --n $N",
    "N=8; while read x; do N=$x; done < <(echo 3); trl grpo 4 --n $N",
    "N=8; N=4 export M=$N; trl grpo 4 --n $N --m $M",
    "N=1 M=$N; trl grpo 4 --n $N --m $M",
    "export N=8 M=$N; trl grpo 4 --n $N --m $M",
    "N=8; time N=4; trl grpo 4 --n $N",
    "N=8; ! N=4; trl grpo 4 --n $N",
    "N=8; exec 3>&1; env N=4 true; trl grpo 4 --n $N",
    "env N=4 bash -c 'trl grpo 4 --n $N' ; N=4; trl grpo 4 --n $N",
    "for i in 1 2; do N=4; if [ $i = 2 ]; then trl grpo 1 --n $N --k ${K:-1}; fi; unset N; K=3; done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; export N=4; done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; read N <<< 3; done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; : $((N=3)); done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; : ${N:=3}; done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; (( --N )); done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; printf -v N 3; done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; eval N\\=3; done",
    "for i in 1 2; do [ $i = 2 ] && trl grpo 1 --n ${N:-9}; declare N; N=3; done",
    "N=8 # '\nM=3 # \"\ntrl grpo 1 --n $N --m $M",
    'echo "${N:-"}"}" \'a\'; N=8; trl grpo 1 --n $N',
    'N="a\nb"; trl grpo 1 --n $N --m "$N"',
    "trl grpo 1 a.b=3 +c.d=[1,2] '~e=4' f={a:1,b:2} \"g.h={a: 1}\"",
    'trl grpo 1 --n $((3 * (2 + 1))) --k `echo 4` --m "`echo "a b"`"',
    "N=8; x() { unset N; }; x; trl grpo 1 --n ${N:-3}",
    "N=8; if false; then :; fi; N=4 ; trl grpo 1 --n $N",
    "N=8; if true; then N=4; N=8; fi; trl grpo 1 --n $N",
    "N=8; for i in 1; do N=4; break; N=8; done; trl grpo 1 --n $N",
    "N=8; f() { N=4; return; N=8; }; f; trl grpo 1 --n $N",
    "N=8; { N=4; false; } || N=5; trl grpo 1 --n $N",
    "N=8 && M=3; trl grpo 1 --n $N --m ${M:-5}",
    "N=8\ntrue &&\nN=4\ntrl grpo 1 --n $N",
    "N=8\ntrue | # x\nN=4\ntrl grpo 1 --n $N",
    'A=(\n# --n 4\n--m 3 # it\'s\n)\ntrl grpo 1 "${A[@]}"',
    'A=($(echo --n 3)); trl grpo 1 --n 4 "${A[@]}"',
    "A=($X --n 3); trl grpo 1 --n 4 ${A[@]} ${A[@]:1} ${#A[@]}",
    'N=8; [ "$N" -gt 3 ] && M=$N || M=1; trl grpo 1 --m $M',
    'N="${N:=5}"; trl grpo 1 --n $N',
    'A=(a b); B=("${A[@]}" "${A[@]}"); trl grpo 1 --n "${B[@]}"',
    "A=--n; trl grpo 1 --n 4 $A 5 --m 3",
    "B='8 --m'; trl grpo 1 --n $B 3",
    'N=8; "$X" N=4; $X N=4; trl grpo 1 --n $N',
    "'if' true; N=8; trl grpo 1 --n $N",
    "N=8; echo if; echo done; echo }; N=4; trl grpo 1 --n $N",
    "N=8; for x in if for case; do N=4; done; trl grpo 1 --n $N",
    "N=3; if [ x ]; then N=8; trl grpo 1 --n $N; else trl grpo 2 --n $N; fi",
    "N=8; N=4 M=$N; N=$M; trl grpo 1 --n $N",
    "N=8; true || N=4; trl grpo 1 --n $N",
    "N=8; true && N=4; trl grpo 1 --n $N",
    "export N=4 && export M=$N && N=8; trl grpo 1 --n $N",
    "N=8; N=4 | cat; trl grpo 1 --n $N",
    "N=8; echo 4 | { read N; }; trl grpo 1 --n $N",
    "N=8; N=4 &; trl grpo 1 --n $N",
    "f() { N=$1; }; f 8; trl grpo 1 --n $N",
    "f() { N=4; g; trl grpo 1 --n $N; }; g() { N=5; }; f",
    "main() { N=4; g; trl grpo 1 --n $N; }\ng() { N=8; }\nmain",
    "f() { N=4; $1; trl grpo 1 --n $N; }; g() { N=5; }; f g",
    'f() { shift 2; trl grpo 1 --h 1 "$@" --z; }; f 1 2 --n 3; f 1 2 --n 4 5',
    'f() { trl grpo 1 --h 1 "$@"; }; for x in 1 2; do f --n $x --m 3; shift; done',
    'f() { trl grpo 1 "$@"; }; g() { f --n 3 "$@"; }; g --m 4; f --k 5',
    'f() { export "$1"; }; N=8; f N=4; trl grpo 1 --n $N',
    'A=(--n 4); f() { trl grpo 1 "${A[@]}"; }; for x in 1 2; do f; A+=(--m 3); done',
    'A=(--n 4); for x in 1 2; do A+=(7); [ $x = 2 ] && break; A=(--k 1); done; trl grpo 1 --h 2 "${A[@]}"',
    "f() { shift; N=$1; }; f 4 8; trl grpo 1 --n $N",
    "set -- 4 8; shift; N=$1; trl grpo 1 --n $N",
    "N=8; for x in 1 2; do N=8; done; trl grpo 1 --n $N",
    "N=8; read -p N M; trl grpo 1 --n $N",
    "N=8; unset N; N=${N:-4}; trl grpo 1 --n $N",
    "N=8; f() { N=4; }; trl grpo 1 --n $N",
    "N=8; f() { N=4; }; f; trl grpo 1 --n $N",
    "N=(8 4); N=5; trl grpo 1 --n $N",
    "N=(4 2); N[0]=8; trl grpo 1 --n $N",
    "N=8; eval N=4; trl grpo 1 --n $N",
    ": ${N:=8}; N=${N:-4}; trl grpo 1 --n $N",
    "N=${M:-${K:-8}}; trl grpo 1 --n $N",
)
SCALARS, VALUES = ("N", "M"), ("4", "8", "16", "''", "$N", "$M", "${N:-7}", '"${M:-$N}"', "${M-5}", "${N:+6}", "4$M")
SETS = (
    *("{n}={v}",) * 6,
    "{n}+={d}",
    "export {n}={v}",
    "declare {n}={v}",
    ": ${{{n}:={d}}}",
    "(({n}+={d}))",
    "(( {n} = {d}, M++ ))",
    "let {n}={d}",
    "{n}=$((2 * {d}))",
    "{n}=$(echo {d})",
    "{n}=`echo {d}`",
    "true $(({n}={d}))",
    "unset {n}",
    "read {n} <<< {d}",
    "read -r M {n} <<EOF\n{d} 4\nEOF",
    "printf -v {n} %s {d}",
    "{n}={d} true ${n}",
    "{n}={d} M=${n}",
    "declare -i {n}={d}+1",
    "eval '{n}={d}'",
    'eval "{n}=$M"',
    "mapfile -t A <<< {d}",
    "readarray -t A < <(echo {d})",
)
ARRAYS = (
    "A=(--x {d})",
    "A=(--x {v})",
    "A+=(--y {d})",
    "A+=({d})",
    "A+=(--z)",
    "A=()",
    "A={d}",
    "A[0]=--y",
    "A[1]={v}",
    "A+=--q",
    'A=("${{A[@]}}" --v "{d} 1")',
    "A=([1]=--u)",
    "N=(1 2)",
    "unset 'A[0]'",
    'ARGS="--x {d}"',
    'ARGS="$ARGS --y $N"',
    "ARGS+=' --z'",
    "ARGS=",
    "ARGS=$(echo --x {d})",
    'ARGS="${{A[*]}}"',
    "set -- --s {d}",
    'set -- "$@" --r',
    "shift",
)
CONDITIONS = ("true", "false", "[ $N = 4 ]", "[[ -n $M && ( $N < 5 ) ]]", "! [ -z $N ]", "((N > 4))", "N=4", "! false")
WORDS = (
    "--n $N",
    '--m "$M"',
    "--k ${N:-3}",
    '--l "${M:-$N}"',
    '--h 8 "${A[@]}"',
    "--o 8 ${A[@]}",
    '--p 8 "${A[@]+"${A[@]}"}"',
    "--t 8 $ARGS",
    '--u "x$1"',
    "--v 8 $A",
    '--a "x${A[0]}"',
    '--b "x${A[*]}"',
    "--c=$N",
    "--d $(echo 5)",
    "--e {1,2}",
    "--f 'a b' \\\n  \"it's\"",
    "--g <(echo)",
    "$EXTRA",
    '--w 8 "$@"',
    "--i ${M:='9 9'}",
    "--j 8",
    "{fd}>/dev/null",
    "2>&1",
    "2>/dev/null",
    "&>/dev/null",
    "&>>/dev/null",
    ">| /dev/null",
    "> >(cat)",
    "<<<8",
    "< /dev/null",
)


class _Writer:
    """A writer of one random script.

    tag: the number of the last command of the trainer in it.
    """

    def __init__(self, seed: int) -> None:
        self.random, self.tag = Random(seed), 0

    def trainer(self) -> str:
        """Return a command of the trainer: its number, and then random words."""
        self.tag += 1
        words = self.random.sample(WORDS, self.random.randint(2, 5))
        before = self.random.choice(("",) * 6 + ("N=4 ", "M=$N A=3 ", "time ", "! "))
        return f"{before}trl grpo {self.tag} {' '.join(words)}"

    def simple(self) -> str:
        """Return a command that sets a variable or starts the trainer."""
        if self.random.random() < 0.3:
            return self.trainer()
        form = self.random.choice(SETS if self.random.random() < 0.65 else ARRAYS)
        value = self.random.choice(VALUES)
        return form.format(n=self.random.choice(SCALARS), v=value, d=self.random.choice("48"))

    def block(self, depth: int, most: int = 3) -> str:
        """Return several commands, each on lines of its own.

        depth: how many more commands may be inside one another.
        """
        return "\n".join(self.command(depth) for _ in range(self.random.randint(1, most)))

    def command(self, depth: int) -> str:
        """Return a random command, simple or compound."""
        if depth == 0 or self.random.random() < 0.55:
            return self.simple()
        block, condition = lambda: self.block(depth - 1), self.random.choice(CONDITIONS)
        stop = self.random.choice(("",) * 4 + ("break", "[ $N = 4 ] && break", "[ $N = 4 ] && continue", "exit"))
        leave = self.random.choice(("",) * 4 + ("return", "[ $N = 4 ] && return", "[ $N = 8 ] && exit"))
        own = self.random.choice(("", "", "local N", "local N=4", "declare M=8", "declare -g M=8", "local A=(--w 1)"))
        name, other = self.random.sample(("f", "g", "h"), 2)
        if self.random.random() < 0.15:
            return self.random.choice((name, f"N=8 {name}", f"{name} --x 4", f"C={name}; $C", f'{name} "$@" --y $N'))
        return self.random.choice(
            (
                f"if {condition}; then\n{block()}\nfi",
                f"if {condition}; then\n{block()}\nelse\n{block()}\nfi",
                f"if {condition}; then\n{block()}\nelif [ $N = 8 ]; then\n{block()}\nelse\n{block()}\nfi",
                f"case $N in 4)\n{block()}\n;; 8|16)\n{block()}\n;& *)\n{block()}\n;; esac",
                f"case $M in 4)\n{block()}\n;; esac",
                f"for N in 1 2; do\n{block()}\n{stop}\n{block()}\ndone",
                f"for x in 1 2\ndo\n{block()}\n{stop}\ndone",
                f"for ((i=0; i<2; i++)); do\n{block()}\ndone",
                f"while read M; do\n{block()}\n{stop}\ndone <<< 8",
                f"c=0; until [ $((++c)) -gt 2 ]; do\n{block()}\n{stop}\ndone",
                f"(\n{block()}\n)",
                f"{{\n{block()}\n}}",
                f"{{\n{block()}\n}} | cat",
                f"echo 1 | {{\n{block()}\n}}",
                f"{{\n{block()}\n}} &\nwait",
                f"{condition} && {self.command(depth - 1)}",
                f"{condition} || {self.command(depth - 1)}",
                f"{condition} && {{\n{block()}\n}} || {{\n{block()}\n}}",
                f"{name}() {{\n{own}\n{block()}\n{leave}\n{block()}\n}}\n{name}",
                f"{name}() {{\n{own}\n{block()}\n{leave}\n}}",
                f"function {name} {{\n{block()}\n}}\n{self.command(depth - 1)}\n{name}",
                # A function that calls a helper which is defined further down, between an assignment and its use.
                f"{name}() {{\n{self.simple()}\n{other}\n{self.trainer()}\n}}\n{other}() {{\n{block()}\n}}\n{name}",
                f"{name}() {{\n{own}\n{other} --x 4\n{block()}\n}}\n{other}() {{\n{own}\n{block()}\n}}\n{name} 8",
                f"{name}() {{\n{self.simple()}\n$1\n{self.trainer()}\n}}\n{other}() {{\n{block()}\n}}\n{name} {other}",
                f"{name}() {{\n{other}\nshift\n{self.trainer()}\n}}\n{other}() {{\n{block()}\n}}\n{name} a --x 4",
            )
        )


def random_script(seed: int) -> str:
    """Return a random script; each command of the trainer in it has a number of its own after trl grpo."""
    writer = _Writer(seed)
    return f"{writer.block(2, 6)}\n{writer.block(2, 4)}\n{writer.trainer()}\n"


def given_by_bash(scripts, folder):
    """Return, for each script, the words that bash gives the trainer: a list for each time that a command runs, by the
    number of the command.

    folder: where files may be written.
    """
    names = []
    for number, script in enumerate(scripts):
        names.append(folder / f"{number}.sh")
        names[-1].write_text(script)
        (folder / f"{number}.sh.log").write_text("")
    run = ["env", "-i", "PATH=/usr/bin:/bin", "bash", "-c", STUB, "bash", *map(str, names)]
    subprocess.run(run, cwd=folder, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
    given = []
    for name in names:
        runs: dict[str, list[list[str]]] = {}
        for line in (folder / f"{name.name}.log").read_bytes().decode().split("\n\0")[:-1]:
            words = line.split("\0")[:-1]
            if words not in runs.setdefault(words[1], []):
                runs[words[1]].append(words)
        given.append(runs)
    return given


def as_script(words):
    """Return a script whose one command has these words as they are."""
    return "trl " + " ".join(map(shlex.quote, words))
