"""The command policy: by rule, through every wrapping, and within bounds whatever it is given."""

import os
import re
import time
from pathlib import Path
from shlex import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contracts import CommandVerdict
from shared.policy import judge, judge_read
from shared.policy.call import VERBS
from shared.policy.parser import LONGEST
from shared.policy.programs import PROGRAMS
from shared.policy.programs.git_commands import COMMANDS
from shared.policy.programs.rows import Row
from shared.policy.rules import RULES
from tests.unit.policy_examples import EVERYDAY, STOPPED

ALLOW, ASK, DENY = CommandVerdict.ALLOW, CommandVerdict.ASK, CommandVerdict.DENY
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "policy.md"
SAMPLES = os.environ.get("MAILROOM_POLICY_SAMPLES", "")
DANGEROUS = ("rm -rf /etc", "git reset --hard", "cat /etc/shadow", "kill -9 -1", "chmod -R 777 /opt")


def _commands(text: str) -> list[str]:
    return [line.replace("␤", "\n") for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize("rule", sorted(STOPPED))
def test_each_rule_stops_what_it_is_for(rule: str) -> None:
    for command in _commands(STOPPED[rule]):
        ruling = judge(command)
        assert (ruling.rule, ruling.verdict) == (rule, RULES[rule].verdict), command
        assert ruling.verdict is not ALLOW
        assert ruling.command == command
        assert ruling.why.endswith("."), command


def test_everyday_work_is_allowed() -> None:
    stopped = [(command, judge(command).why) for command in _commands(EVERYDAY)]
    assert [pair for pair in stopped if judge(pair[0]).verdict is not ALLOW] == []


def test_lines_and_columns_of_a_system_table_may_be_seen_but_not_all_of_it() -> None:
    for command in (
        "cut -d: -f1 /etc/passwd",
        "cat /etc/passwd | awk -F: '{print $1}'",
        "env | sort | grep HOME",
    ):
        assert judge(command).verdict is ALLOW, command
    for command in ("cat /etc/passwd", "cat /etc/passwd | base64", "x=$(cat /etc/passwd)", "env | sort"):
        assert judge(command).verdict is ASK, command
    for command in ("cut -d: -f2 /etc/shadow", "cat /etc/shadow | wc -l", "f=/etc/passwd; cut -d: -f1 $f"):
        assert judge(command).verdict is not ALLOW, command


def test_a_reason_says_who_does_what_to_what() -> None:
    assert judge("cat ~/.ssh/id_rsa").why == "~/.ssh/id_rsa holds credentials or private records."
    assert judge("psql -c 'DROP TABLE x'").why == "psql -c 'DROP TABLE x' destroys data in a database."
    assert judge('rm -rf "$X"').why == "What is deleted is known only when it runs: ..."
    assert judge("cat x > /dev/sda").why.startswith("Writing to /dev/sda would")


def test_the_workspace_is_where_it_is_said_to_be() -> None:
    assert judge("rm -rf /srv/work/t1/old.log", workspace="/srv/work/t1").verdict is ALLOW
    assert judge("rm -rf /srv/work/t2/old.log", workspace="/srv/work/t1").rule == "destroy.outside-workspace"
    assert judge("cd src && rm ../a.txt", workspace="/srv/work/t1").verdict is ALLOW
    assert judge("cd src && rm ../../a.txt", workspace="/srv/work/t1").rule == "destroy.outside-workspace"
    assert judge("rm x", workspace="/srv/work/t1/").verdict is ALLOW


def test_a_path_is_judged_as_the_command_that_reads_it() -> None:
    for path in (
        "/etc/passwd",
        "/home/u/project",
        "/srv/it's $(here)",
        "/root/.ssh",
        "/dev/zero",
        "/srv/a\u202e",
    ):
        for workspace in ("", "/srv/work/t1"):
            assert judge_read(path, workspace=workspace) == judge(f"cat {quote(path)}", workspace=workspace)
            copied = judge_read(path, deep=True, workspace=workspace)
            assert copied == judge(f"cp -r {quote(path)} copy", workspace=workspace)


def test_words_used_as_data_are_no_commands() -> None:
    assert judge("git commit -m 'rm -rf / is gone; sudo too'").verdict is ALLOW
    assert judge("x='rm -rf /'; echo \"$x\"").verdict is ALLOW
    assert judge("cat <<'E' > notes.md\nrm -rf /\nE").verdict is ALLOW


def test_what_a_later_command_makes_anew_may_go() -> None:
    assert judge("rm -rf node_modules").rule == "destroy.workspace"
    assert judge("rm -rf node_modules && npm ci").verdict is ALLOW
    assert judge("rm -rf .mypy_cache __pycache__").verdict is ALLOW


def test_the_strictest_finding_counts() -> None:
    assert judge("git push -f; cat ~/.ssh/id_rsa").verdict is DENY
    assert judge("cat ~/.ssh/id_rsa; git push -f").rule == "secret.file"


def test_nothing_to_run_is_allowed() -> None:
    assert [judge(text).rule for text in ("", "  \n\t")] == ["nothing", "nothing"]


@pytest.mark.parametrize(
    "command",
    [
        "a;" * 600_000,
        "x" * (LONGEST + 1),
        "(" * 8_000 + "ls" + ")" * 8_000,
        "$(" * 5_000,
        "if a; then " * 900,
        "`" * 16_000,
        "eval " * 3_000 + "x",
        "f0() { rm a; };" + "".join(f"f{n}() {{ f{n - 1}; f{n - 1}; }};" for n in range(1, 40)) + "f39",
        "x=aaaaaaaaaaaaaaaaaaaa;" + "x=$x$x;" * 500 + "rm -rf $x",
        "for i in " + "a " * 900 + "; do for j in " + "b " * 900 + "; do rm -rf $i/$j; done; done",
        "ls \x00 x",
        "ls \u202e x",
        "ls \ue02a",
        "python3 -c '" + "(" * 2_000 + ")" * 2_000 + "'",
        "[" * 5_000,
        "<<A " * 2_000,
    ],
    ids=lambda command: re.sub(r"[^\w ]", "", command[:12]) + str(len(command)),
)
def test_what_is_too_much_is_refused_quickly(command: str) -> None:
    begun = time.process_time()
    ruling = judge(command)
    assert ruling.verdict is not ALLOW
    assert ruling.rule != "unclear.fault"
    assert time.process_time() - begun < 2
    assert len(ruling.why) < 400


SHELL = r"""
rm -rf / ~ $HOME $x ${x:-a} ${!x} $(ls) `ls` <(ls) > >> < <<< <<E ; & && || | ( ) { } [[ ]] [ ] ! if
then fi for in do done while case esac function
f() { eval sh -c 'ls' "ls" $'\x41' {a,b} {1..9} *.py ?? \ # = x=1 a[1]=2
git push --force python3 'import os' curl -d @- awk '{print}'
sed -i s/a/b/ find . -exec {} tar cf - xargs env -S
sudo echo -e \x72 perl -e 'x' $((1+1)) -- -n @ %1 2>&1 /dev/null /etc/x ../..
cd export trap alias mv cp ln dd of=x
-I{} time exec command source -f node ruby ssh wget -O nc while : kill -9 chmod 777 docker run
"""
PIECES = st.sampled_from([*SHELL.split(), "\n"])


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=14).map(" ".join))
def test_any_mix_of_shell_is_decided(command: str) -> None:
    ruling = judge(command)
    assert ruling.rule in RULES
    assert ruling.rule != "unclear.fault"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_decided(command: str) -> None:
    assert judge(command).rule != "unclear.fault"


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(_commands(EVERYDAY)),
    st.sampled_from(DANGEROUS),
    st.sampled_from(["; ", "\n", " && ", " & "]),
)
def test_everyday_work_before_it_does_not_help(everyday: str, dangerous: str, between: str) -> None:
    if "\n" in everyday or "#" in everyday or everyday.startswith("exit"):
        between = "\n"
    assert judge(f"{everyday}{between}{dangerous}").verdict is not ALLOW


def test_signs_beyond_latin_1_neither_end_the_process_nor_change_a_path() -> None:
    for text in (
        "\U000ead3c?\U0003b999a#\u2e9b1()\U0001b9e8{\U000b826e!>b)",
        "$\u4e00{\U0010ffff[\u82d5]}",
        "a=\U00055191;b",
    ):
        assert judge(text * 20).rule != "unclear.fault"
    assert judge("rm -rf /srv/\u65e5\u672c").why.startswith("/srv/\u65e5\u672c lies")
    inside = judge("rm /srv/\u65e5/\u672c/a.txt", workspace="/srv/\u65e5")
    assert (inside.verdict, judge("rm /srv/\u672c/a.txt", workspace="/srv/\u65e5").verdict) == (ALLOW, DENY)


def test_every_rule_is_explained() -> None:
    text = DOCUMENT.read_text()
    assert [rule for rule in RULES if f"`{rule}`" not in text] == []
    assert set(re.findall(r"^\| `([\w.-]+)` \|", text, re.MULTILINE)) == set(RULES)


def test_every_row_names_rules_effects_and_patterns_that_exist() -> None:
    rows = [row for row in (*PROGRAMS.values(), *COMMANDS.values()) if isinstance(row, Row)]
    steps = [step for row in rows for step in row.steps]
    assert len(steps) > 100
    assert {step.rule for step in steps} <= {*RULES, ""}
    effects = [effect for step in steps for effect in step.does.split(";") if effect]
    assert {verb for effect in effects for verb in effect.split()[0].split("+")} <= set(VERBS)
    for step in steps:
        for pattern in (step.words, step.operand, step.argument, step.line):
            re.compile(pattern or "")


def test_every_rule_has_an_example() -> None:
    without = {"everyday", "nothing", "unclear.size", "unclear.fault"}
    assert set(RULES) - set(STOPPED) == without


@pytest.mark.skipif(not SAMPLES, reason="MAILROOM_POLICY_SAMPLES names no folder of samples")
def test_samples() -> None:
    def read(name: str) -> list[str]:
        lines = (Path(SAMPLES) / name).read_text(encoding="utf-8").split("\n")
        kept = [line for line in lines if line.strip() and not line.startswith("#")]
        return [line.split("\t", 2)[-1].replace("␤", "\n") for line in kept]

    assert [command for command in read("dangerous.txt") if judge(command).verdict is ALLOW] == []
    everyday = read("benign.txt")
    allowed = sum(judge(command).verdict is ALLOW for command in everyday)
    assert allowed >= 0.97 * len(everyday)
