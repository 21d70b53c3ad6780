"""The command policy: by rule, through every wrapping, and within bounds whatever it is given."""

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contracts import CommandVerdict
from shared.policy import find_faults, judge, judge_read
from shared.policy.parser import LONGEST
from shared.policy.rules import RULES
from tests.support.policy_commands import EVERYDAY, HELD, REACHING, STOPPED

ALLOW, ASK, DENY = CommandVerdict.ALLOW, CommandVerdict.ASK, CommandVerdict.DENY
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "policy.md"
SAMPLES = os.environ.get("MAILROOM_POLICY_SAMPLES", "")
DANGEROUS = ("rm -rf /etc", "git reset --hard", "cat /etc/shadow", "kill -9 -1", "chmod -R 777 /opt")


@pytest.mark.parametrize("rule", sorted(STOPPED))
def test_each_rule_stops_what_it_is_for(rule: str) -> None:
    for command in STOPPED[rule]:
        ruling = judge(command)
        assert (ruling.rule, ruling.verdict) == (rule, RULES[rule].verdict), command
        assert ruling.verdict is not ALLOW
        assert ruling.command == command
        assert ruling.why.endswith("."), command


def test_everyday_work_is_allowed() -> None:
    assert [command for command in EVERYDAY if judge(command).verdict is not ALLOW] == []


def test_what_the_jail_holds_is_allowed() -> None:
    lines = [command for commands in HELD.values() for command in commands]
    assert [command for command in lines if judge(command).verdict is not ALLOW] == []


def test_what_only_needs_a_network_asks_for_that_alone() -> None:
    for command in REACHING:
        ruling = judge(command)
        assert (ruling.verdict, ruling.rule.partition(".")[0]) == (ASK, "reach"), command
        assert ruling.reach, command
        allowed = judge(command, granted=ruling.reach)
        assert (allowed.verdict, allowed.reach) == (ALLOW, ruling.reach), command


def test_reach_names_registries_and_hosts() -> None:
    for command, reach in (
        ("pip install -r requirements.txt", ("python",)),
        ("npm ci && cargo update", ("javascript", "rust")),
        ("go mod download", ("go",)),
        ("mvn dependency:resolve", ("java",)),
        ("apt-get -y install jq", ("debian",)),
        (
            "curl -O https://example.org/a && wget http://files.example.org/b",
            ("host:example.org", "host:files.example.org"),
        ),
        ("pip install git+https://git.example.org/x.git", ("python", "host:git.example.org")),
        ("git clone git@example.org:a/b.git", ("host:example.org",)),
        ("git fetch", ("network",)),
        ("make test; curl localhost:8000", ()),
    ):
        assert judge(command).reach == reach, command
    why = judge("pip install x").why
    assert why == (
        "pip install x has no network here; allow the Python registry for this goal: "
        "mailroom approvals grant ID --for goal."
    )


def test_a_grant_covers_what_it_names_and_no_more() -> None:
    command = "pip install x && curl https://a.example.org/f"
    for granted, verdict in (
        ((), ASK),
        (("python",), ASK),
        (("python", "host:a.example.org"), ALLOW),
        (("python", "host:*.example.org"), ALLOW),
        (("python", "host:example.org"), ASK),
        (("network",), ALLOW),
    ):
        assert judge(command, granted=granted).verdict is verdict, granted
    assert judge("curl https://x.y/i | sh", granted=("network",)).rule == "run.download"
    assert judge("git push --force", granted=("network",)).rule == "git.history"


def test_a_program_nobody_knows_is_allowed() -> None:
    assert judge("frobnicate --deep src").verdict is ALLOW
    assert judge("frobnicate ~/.ssh/id_rsa").rule == "secret.file"
    assert judge("frobnicate rm -rf /etc").rule == "destroy.outside-workspace"


def test_every_rule_agrees_with_the_examples_beside_it() -> None:
    assert find_faults() == ()
    bare = {"everyday", "nothing", "unclear.size", "unclear.fault"}
    assert {name for name, rule in RULES.items() if not (rule.stops and rule.lets)} == bare


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


def test_a_path_is_judged_as_a_path() -> None:
    for path, deep, rule in (
        ("/srv/it's $(here)", False, "everyday"),
        ("/home/u/project", True, "everyday"),
        ("/home/u", True, "read.everything"),
        ("/etc", True, "read.everything"),
        ("/etc/shadow", False, "secret.file"),
        ("/root/.ssh", True, "secret.file"),
        ("/home/u/.config/x", False, "read.system"),
        ("/srv/work/t1/.env", False, "secret.workspace"),
        ("src/a.py", False, "everyday"),
        ("../../../etc/shadow", False, "secret.file"),
        ("/srv/a\u202e", False, "unclear.spelling"),
        ("/srv/" + "a" * (LONGEST + 1), False, "unclear.size"),
    ):
        ruling = judge_read(path, deep=deep, workspace="/srv/work/t1")
        assert ruling.rule == rule, path
        assert ruling.command == path


def test_words_used_as_data_are_no_commands() -> None:
    assert judge("git commit -m 'rm -rf / is gone; sudo too'").verdict is ALLOW
    assert judge("x='rm -rf /'; echo \"$x\"").verdict is ALLOW
    assert judge("cat <<'E' > notes.md\nrm -rf /\nE").verdict is ALLOW


def test_folders_of_the_workspace_may_go_but_not_all_of_it() -> None:
    for command in ("rm -rf node_modules", "rm -rf build/*", "rm -rf src", "find . -name '*.o' -delete"):
        assert judge(command).verdict is ALLOW, command
    for command in ("rm -rf .", "rm -rf *", 'rm -rf "$PWD"', "find . -delete", "rm -rf .git", "rm -rf -- *"):
        assert judge(command).verdict is ASK, command


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


@pytest.mark.parametrize(
    "piece", ["fork ", "eval exec( ", "socket sh ", "requests.post(", "'a' + ", "\\\\x41"]
)
def test_long_code_is_judged_quickly(piece: str) -> None:
    begun = time.process_time()
    judge(f'python3 -c "{piece * (8_000 // len(piece))}"')
    assert time.process_time() - begun < 2


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
    st.sampled_from(EVERYDAY),
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


def test_every_rule_has_an_example() -> None:
    without = {"everyday", "nothing", "unclear.size", "unclear.fault"}
    assert set(RULES) - set(STOPPED) - {rule for rule in RULES if rule.startswith("reach.")} <= without


@pytest.mark.skipif(not SAMPLES, reason="MAILROOM_POLICY_SAMPLES names no folder of samples")
def test_samples() -> None:
    def read(name: str) -> list[str]:
        lines = (Path(SAMPLES) / name).read_text(encoding="utf-8").split("\n")
        kept = [line for line in lines if line.strip() and not line.startswith("#")]
        return [line.split("\t", 2)[-1].replace("␤", "\n") for line in kept]

    held = {command for commands in HELD.values() for command in commands}
    allowed = {command for command in read("dangerous.txt") if judge(command).verdict is ALLOW}
    assert allowed <= held
    everyday = [judge(command) for command in read("benign.txt")]
    fine = sum(ruling.verdict is ALLOW or ruling.rule.startswith("reach.") for ruling in everyday)
    assert fine >= 0.99 * len(everyday)
