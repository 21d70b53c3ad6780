"""What a command in the jail sees and can change of the machine's files: real commands that try."""

import os
import shutil
import sys
import uuid
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.jailer.supervisor import seal_program
from shared.sandbox import check_jail, command, run_command
from shared.sandbox.jail import find_bubblewrap, is_closed
from tests.flow.jailing import python, run_office, shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")

CANARY = f"canary-{uuid.uuid4().hex}"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def test_the_jail_works_here():
    assert await check_jail() == ""


async def test_the_workspace_alone_can_be_written(workspace, tmp_path):
    (tmp_path / "beside").write_text("before")
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "text").write_text("to be read")
    script = f"""
        echo made > made; mkdir deep; echo more > deep/file
        cat {tmp_path}/read/text; echo
        for place in {tmp_path}/read/new {tmp_path}/read/text /usr/new /etc/passwd /etc/new /new \
            {sys.prefix}/new {Path(sys.executable).resolve()} /proc/sys/kernel/core_pattern /dev/new /root/new
        do (echo x > $place) 2>/dev/null && echo "wrote $place"; done
        cat {tmp_path}/beside
    """
    result = await shell(script, workspace, readable=[tmp_path / "read"])
    assert result.output.startswith("to be read\n")
    assert "wrote" not in result.output
    assert "before" not in result.output
    assert (workspace / "made").read_text() == "made\n"
    owners = {
        (path.stat().st_uid, path.stat().st_gid) for path in (workspace / "made", workspace / "deep/file")
    }
    assert owners == {(os.geteuid(), os.getegid())}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside", "read", "workspace"]


async def test_a_working_folder_is_shown_read_only(workspace):
    (workspace / "file").write_text("x")
    result = await shell("cat file; echo y > file || echo refused", workspace, writable=[])
    assert result.output.startswith("x")
    assert result.output.endswith("refused\n")


async def test_what_was_private_to_the_office_can_be_read_where_it_is_shown(workspace):
    closed = workspace / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("x")
    (closed / "file").chmod(0o600)
    result = await shell("cat closed/file && echo y > closed/new && rm closed/file", workspace)
    assert (result.output, result.exit_code) == ("x", 0)
    assert sorted(path.name for path in closed.iterdir()) == ["new"]


async def test_secrets_of_the_machine_are_not_there(workspace, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    (workspace / "link").symlink_to(secret)
    (workspace / "up").symlink_to("../secret")
    (workspace / "host").symlink_to("/")
    monkeypatch.setenv("SECRET_TOKEN", CANARY)
    home = Path.home()
    # Python itself is shown, wherever it is.
    empty = [place for place in ("/var", "/run", "/sys", "/boot", "/mnt") if not sys.prefix.startswith(place)]
    script = f"""
        cat link up host{secret} {secret} ../secret /proc/1/root{secret} /proc/self/root{secret}
        cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/* /etc/machine-id /var/lib/dbus/machine-id
        ls -A {home}/.ssh {home}/.aws {home}/.netrc {home}/.bash_history {home}/.config
        for place in {" ".join(empty)}; do ls -A $place; done
        for name in '*.nk' id_rsa credentials.toml
        do find / -path /usr -prune -o -path /proc -prune -o -name "$name" -print; done
        cat /proc/*/environ | tr '\\0' '\\n'; env
        cat /proc/keys /proc/kcore /dev/mem /dev/kmsg | head -c 100
    """
    result = await shell(f"({script}) 2>/dev/null; true", workspace)
    assert CANARY not in result.output
    names = {line.partition("=")[0] for line in result.output.splitlines() if line}
    assert names <= {"PATH", "HOME", "TMPDIR", "LANG", "TERM", "USER", "PWD", "SHLVL", "_", "OLDPWD"} | {
        *("RUSTUP_HOME", "PYENV_ROOT", "VOLTA_HOME", "ASDF_DATA_DIR", "LD_LIBRARY_PATH")
    }


async def test_what_is_the_offices_alone_is_covered_where_its_folder_is_shown(workspace, tmp_path):
    place, link = workspace / "state" / "workspaces" / "one", tmp_path / "link"
    link.symlink_to(workspace)
    code = (
        "import asyncio, pathlib\nfrom shared.sandbox import run_command\n"
        f"whole, place = pathlib.Path({str(link)!r}), pathlib.Path({str(place)!r})\n"
        "script = 'find state; cat state/*; rm -rf state/keys state/workspaces/two state/mailroom.toml'\n"
        "script = f'cd {whole}; {script}; cd {whole.resolve()}; {script}; cd {place}'\n"
        "script += '; cat file; echo x > made'\n"
        "ran = run_command(['sh', '-c', script], cwd=place, timeout=20, writable=[whole, place])\n"
        "print(asyncio.run(ran).output)"
    )
    for name in ("keys/user.nk", "mailroom.toml", "workspaces/two/file"):
        path = workspace / "state" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {CANARY}")
    place.mkdir()
    (place / "file").write_text("its own")
    done = run_office(code, **{**os.environ, "MAILROOM_STATE_DIR": str(link / "state")})
    assert CANARY not in done.stdout + done.stderr
    assert "its own" in done.stdout, done.stderr
    assert "user.nk" not in done.stdout
    assert (place / "made").read_text() == "x\n"
    assert (workspace / "state/keys/user.nk").exists()
    assert (workspace / "state/workspaces/two/file").exists()


async def test_whole_homes_and_system_folders_are_never_shown(workspace):
    for place in ("/", "/etc", "/etc/ssl", "/proc", "/proc/1", "/run", "/var", "/home", "/root", "/tmp"):
        assert is_closed(place), place
    for place in (Path.home(), Path.home().parent, Path("/etc/ssl"), Path("/dev")):
        with pytest.raises(ActionError, match=r"may not see all of|does not exist"):
            await shell("true", workspace, readable=[place])
    (workspace / "link").symlink_to("/etc")
    with pytest.raises(ActionError, match="may not see all of"):
        await shell("true", workspace, writable=[workspace / "link"])
    with pytest.raises(ActionError, match=r"The folder .* does not exist"):
        await shell("true", workspace, writable=[workspace / "nowhere"])


async def test_a_folder_that_became_a_link_out_of_the_workspace_leads_nowhere(workspace):
    (workspace / "sub").symlink_to("/etc")
    result = await run_command(["ls", "-A"], cwd=workspace / "sub", timeout=20, writable=[workspace])
    assert "shadow" not in result.output.split()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's command can at most reach what is that user's")
async def test_a_folder_that_becomes_a_link_at_the_last_moment_is_not_followed(
    workspace, tmp_path, monkeypatch
):
    (tmp_path / "outside").mkdir()
    (workspace / "sub").mkdir()
    show = command.visible_mounts

    def show_and_swap(*arguments):
        shown = show(*arguments)
        (workspace / "sub").rmdir()
        (workspace / "sub").symlink_to(tmp_path / "outside")
        return shown

    monkeypatch.setattr(command, "visible_mounts", show_and_swap)
    with pytest.raises(ActionError, match="sub cannot be shown"):
        await shell("touch sub/made", workspace, writable=[workspace / "sub"])
    assert not list((tmp_path / "outside").iterdir())


async def test_what_makes_the_jail_is_not_changed_by_way_of_its_first_process(workspace):
    def look() -> tuple[object, ...]:
        info = Path(find_bubblewrap()).stat()
        return info.st_mode, info.st_ctime_ns, info.st_mtime_ns

    before = look()
    code = """
import os
for change in (
    lambda: os.chmod("/proc/1/exe", 0o777),
    lambda: os.utime("/proc/1/exe"),
    lambda: os.setxattr("/proc/1/exe", "user.x", b"x"),
    lambda: os.truncate("/proc/1/exe", 0),
    lambda: os.open("/proc/1/exe", os.O_WRONLY),
):
    try: change()
    except OSError: pass
print("tried")
"""
    assert (await python(code, workspace)).output == "tried\n"
    assert look() == before


def test_a_program_that_this_user_could_change_is_run_from_a_sealed_copy(tmp_path):
    copy = tmp_path / "true"
    shutil.copy("/usr/bin/true", copy)
    program, environment = seal_program(str(copy))
    try:
        assert program.startswith("/proc/self/fd/")
        assert set(environment) == {"LD_LIBRARY_PATH"}
        with pytest.raises(PermissionError):
            os.pwrite(int(program.rpartition("/")[2]), b"x", 0)
        assert os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(program, ["true"], {}), 0)[1]) == 0
    finally:
        os.close(int(program.rpartition("/")[2]))
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert seal_program(str(script)) == (str(script), {})


async def test_no_file_becomes_another_users_program(workspace):
    (workspace / "tool").write_text("#!/bin/sh\n")
    code = """
import os
for bits in (0o4755, 0o2755, 0o6755):
    for change in (
        lambda: os.chmod("tool", bits),
        lambda: os.fchmod(os.open("tool", os.O_RDONLY), bits),
        lambda: os.open(f"new{bits}", os.O_CREAT | os.O_WRONLY, bits),
        lambda: os.mknod(f"node{bits}", bits),
        lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, bits),
    ):
        try: change(); print("set")
        except PermissionError: print("refused")
"""
    result = await python(code, workspace)
    assert result.output.split() == ["refused"] * 15
    assert not [path for path in workspace.iterdir() if path.stat().st_mode & 0o6000]
