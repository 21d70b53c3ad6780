"""The command policy reads a command as the shell does: through every wrapping, to where paths lead."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contracts import CommandVerdict
from shared.policy import judge

ALLOW, DENY = CommandVerdict.ALLOW, CommandVerdict.DENY
DANGEROUS = ("rm -rf /etc", "git reset --hard", "cat /etc/shadow", "kill -9 -1", "chmod -R 777 /opt")
WRAPPED = """\
{}; ls
ls; {}
ls && {}
ls || {}
ls | {}
{} &
! {}
({})
{ {}; }
echo $({})
echo "a `{}` b"
x=$({})
export x=$({})
echo ${x:-$({})}
echo ${a[$({})]}
echo $(( $({}) ))
[[ -n $({}) ]]
if {}; then ls; fi
if ls; then ls; else {}; fi
while ls; do {}; done
for i in a b; do {}; done
case a in *) {};; esac
f() { {}; }; f
function f { {}; }
cat <({})
ls > >({})
cat <<< "$({})"
cat <<E␤$({})␤E
cat <<E␤`{}`␤E
cat <<E; {}␤x␤E
sh <<E␤{}␤E
bash <<'E'␤{}␤E
echo '{}' | sh
printf '{}' | bash -s
bash <<< '{}'
. <(echo '{}')
echo '{}' > a.sh; sh a.sh
cat > a.sh <<E␤{}␤E␤bash ./a.sh
> x {}
a=1 b=2 {}
time {}
coproc {}
eval '{}'
sh -c '{}'
bash -lc "{}"
trap '{}' EXIT
alias q='{}'
env -i A=b {}
env -S '{}'
nice -n 5 {}
nohup {}
setsid {}
stdbuf -oL {}
timeout -s KILL 5 {}
command -p {}
exec {}
busybox sh -c '{}'
sudo -u root -- {}
flock x {}
watch '{}'
find . -exec {} ;
find . -exec sh -c '{}' ;
echo a | xargs -I[] sh -c '{}'
parallel ::: '{}'
strace -f {}
ssh host '{}'
git -c alias.x='!{}' x
git submodule foreach '{}'
x='{}'; eval "$x"
python3 -c "import os; os.system('{}')"
perl -e 'system("{}")'
ruby -e '`{}`'
node -e 'require("child_process").exec("{}")'
awk 'BEGIN{system("{}")}'
vim -c ':!{}'
make -f - <<< 'a:␤	{}'
""".splitlines()
HIDDEN = r"""
r\m -rf /etc
"r"m -rf /etc
r''m -rf /etc
$'\x72m' -rf /etc
{rm,-rf,/etc}
/b?n/r? -rf /etc
$(echo rm) -rf /etc
`echo rm` -rf /etc
a=r; b=m; $a$b -rf /etc
x=rm; $x -rf /etc
${x:-rm} -rf /etc
rm${IFS}-rf${IFS}/etc
/proc/self/root/bin/rm -rf /etc
set -- rm -rf /etc; "$@"
base64 -d <<< cm0gLXJmIC9ldGM= | sh
eval "$(echo cm0gLXJmIC9ldGM= | base64 -d)"
cp /bin/rm ./x; ./x -rf /etc
""".split("\n")[1:-1]
ELSEWHERE = r"""
cd / && rm -rf etc
cd /; rm -rf ./etc/ssl
pushd /; rm -rf etc
rm -rf ../../../../etc
rm -rf "$HOME/../../etc"
rm -rf "$TMPDIR/../etc"
rm -rf /tmp/../etc
rm -rf {/etc,/usr}
rm -rf /e"t"c
d=/; rm -rf "${d}etc"
if ls; then d=/etc; else d=build; fi; rm -rf "$d"
for d in build /etc; do rm -rf "$d"; done
f() { rm -rf "$1"; }; f build; f /etc
d=$(echo /etc); rm -rf $d
rm -rf $(printf '/%s' etc)
echo /etc | xargs rm -rf
while read -r d; do rm -rf "$d"; done <<< /etc
find /etc -name x -delete
""".split("\n")[1:-1]
MISREAD = r"""
"r"\m -rf /etc
rm -rf "/et"\c
cat < "/etc"/shado\w
echo x > "/et"\c/motd
x=/e"t"\c/shadow; cat $x
for i in /e"t"\c; do rm -rf $i; done
a=(/e"t"\c); rm -rf ${a[0]}
ls "a"␤\rm -rf /etc
ls $(pwd)␤\rm -rf /etc
echo \ #; rm -rf /etc
echo a\␤#; rm -rf /etc
echo ${y:-`rm -rf /etc`}
echo "${y:=`rm -rf /etc`}"
cat /etc/$"shadow"
x=c; cat /{et,no}$x/shadow
xa=/etc; rm -rf $x{a,b}
rm -rf {{/etc,/usr} }
set -- -rf /etc; rm "$@"
a=(-rf /etc); rm "${a[@]}"
kill -9 -$((1))
echo -n 'rm -r' > x; echo 'f /' >> x; sh x
printf '%b' '\0162\0155 -rf /etc' | sh
declare -n r=c; c='rm -rf /etc'; bash -c "$r"
x=zrmz; ${x//z/} -rf /etc
make -f - <<'E'␤all: ; rm -rf /srv␤E
echo 'rm -rf /etc' | sh -V
echo ${x%$(rm -rf /etc)}
echo ${x%%`rm -rf /etc`}
cat <<-E␤	$(rm -rf /etc)␤	E
echo `echo \`rm -rf /etc\``
IFS=:; y=-rf:/etc; rm $y
x=; cat ${x:-/etc/shadow}
cat /etc/shado{v..x}
y='$(rm -rf /etc)'; echo "${y@P}"
x='a[$(rm -rf /etc)]'; echo $((x))
let 'a[$(rm -rf /etc)]=1'
[[ -v 'x[$(rm -rf /etc)]' ]]
unset 'a[$(rm -rf /etc)]'
""".split("\n")[1:-1]
"""What the grammar takes apart, joins or overlooks where the shell does not."""
UNSURE = r"""
p=/etc/shadow; p=a | cat $p
p=/etc/shadow; p=a & cat $p
p=/etc/shadow; { p=a; } | cat $p
p=/etc; true || p=build; rm -rf $p
p=/etc; false && p=a.o; rm -rf $p
cd /tmp & rm -rf *
false || cd /; rm -rf etc
""".split("\n")[1:-1]
"""What one part of a script sets, and another does not see for certain."""


@pytest.mark.parametrize("command", DANGEROUS)
def test_no_wrapping_makes_it_allowed(command: str) -> None:
    for wrapping in WRAPPED:
        wrapped = wrapping.replace("{}", command).replace("␤", "\n")
        assert judge(wrapped).verdict is not ALLOW, wrapped


@pytest.mark.parametrize("command", HIDDEN)
def test_a_hidden_name_is_never_allowed(command: str) -> None:
    assert judge(command).verdict is not ALLOW


@pytest.mark.parametrize("command", ELSEWHERE)
def test_paths_are_followed_to_where_they_lead(command: str) -> None:
    assert judge(command).verdict is not ALLOW


@pytest.mark.parametrize("command", MISREAD + UNSURE)
def test_a_command_is_read_as_the_shell_reads_it(command: str) -> None:
    assert judge(command.replace("␤", "\n")).verdict is not ALLOW


def test_what_is_chained_goes_on_where_the_first_left_off() -> None:
    assert judge("cd build && x=a.o && rm $x").verdict is ALLOW
    assert judge("cd build && make; rm a.o").verdict is ALLOW
    assert judge("cd build || exit 1; rm a.o").verdict is ALLOW
    assert judge("cd / && ls && rm -rf etc").verdict is DENY


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([w for w in WRAPPED if "'" not in w and '"' not in w and "␤" not in w]), max_size=3
    )
)
def test_wrappings_within_wrappings_do_not_help(wrappings: list[str]) -> None:
    command = "rm -rf /etc"
    for wrapping in wrappings:
        command = wrapping.replace("{}", command)
    assert judge(command).verdict is not ALLOW
