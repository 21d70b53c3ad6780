"""Programs that reach other machines: fetching, sending, listening, working there."""

import re

from shared.policy.call import Call, Handler
from shared.policy.programs.fetching import FETCHED, WGET, judge_address, judge_curl
from shared.policy.programs.rows import Step, always, first, row
from shared.policy.scope import Stream
from shared.policy.words import Word


def judge_other_fetcher(call: Call) -> Stream | None:
    """Other programs that fetch: asked after, and what they bring is never run."""
    found = call.options("o O d out dir output")
    call.find("network.fetch")
    for word in found.of("o O d out dir output"):
        call.write(word, output=FETCHED)
    for word in found.operands:
        judge_address(call, word)
        if "://" in word.text:
            call.write(Word(word.text.split("?")[0].rstrip("/").rsplit("/", 1)[-1]), output=FETCHED)
        if any(sign in word.text for sign in (":@", "=@", "@/")):
            call.find("network.send")
    if call.name in {"http", "https", "xh", "curlie"}:
        words = [word.text for word in found.operands]
        acts = bool(words) and words[0] in {"POST", "PUT", "DELETE", "PATCH"}
        if acts or any("=" in word for word in words[1:]) or call.stdin.text is None:
            call.find("network.send")
    return FETCHED


_NETCATS = {"nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"}


def judge_connection(call: Call) -> Stream | None:
    """nc, socat, telnet and their like: a connection of any kind."""
    found = call.options("p s w e c i I O P q x X T g G")
    scans = call.name in _NETCATS and found.has("z")
    if scans and not found.has("e c"):
        if found.operands[:1] and found.operands[0].text not in {"localhost", "127.0.0.1", "::1"}:
            call.find("network.remote")
        return None
    call.find("network.shell")
    for word in call.args:
        match = re.match(r"(EXEC|SYSTEM|SHELL):([^,]*)", word.text, re.IGNORECASE)
        if match:
            call.script(match[2].strip("'\""))
    return FETCHED


def judge_ssh(call: Call) -> Stream | None:
    """Another machine; the command for it is judged as if it ran here."""
    found = call.options("b c D E e F I i J L l m O o p Q R S W w", permute=False)
    shows = found.flags == {"G"} and not found.values and len(found.operands) == 1
    if shows or (found.has("Q") and not found.operands):
        return None
    call.find("network.remote")
    for word in found.of("o"):
        if re.search(r"proxycommand|localcommand|knownhostscommand|proxyusefdpass", word.text, re.IGNORECASE):
            call.run_hidden(word.text.partition("=")[2])
    if found.has("R D L w W"):
        call.find("network.listen")
    call.apply(found, "read i F")
    if found.operands[1:]:
        call.script(" ".join(word.text for word in found.operands[1:]))
    elif call.stdin.text:
        call.script(call.stdin.text)
    return FETCHED


def judge_scp(call: Call) -> None:
    """Files to or from another machine."""
    found = call.options("c D F i J l o P S X")
    if found.has("S o"):
        call.find("unclear.command")
    operands = found.operands
    if operands and re.match(r"[\w.@\[\]:-]*:", operands[-1].text):
        call.find("network.send")
        for word in operands[:-1]:
            call.read(word, deep=True)
    else:
        call.find("network.fetch")
        for word in operands[-1:]:
            call.write(word, output=FETCHED)
            for source in operands[:-1]:
                name = source.text.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]
                call.write(Word(f"{word.text.rstrip('/')}/{name}"), output=FETCHED)


def judge_lookup(call: Call) -> None:
    """Names and routes: what is asked may carry what must not leave."""
    found = call.options("c i W w t p s S I m b f k x q W l M Q")
    if any(word.computed or word.obfuscated for word in found.operands):
        call.find("network.send")
    if call.name == "whois" and found.has("h p host port"):
        call.find("network.send")
    if call.name.startswith("ping") and found.has("f s p"):
        call.find("network.remote")
    if found.has("f") and call.name == "dig":
        call.apply(found, "read f")
        call.find("network.send")


def judge_getent(call: Call) -> None:
    """getent: of its databases, those with passwords are not shown."""
    if any("shadow" in word.text for word in call.args):
        call.find("secret.file", "/etc/shadow")
    judge_lookup(call)


_STORAGE = row(
    "",
    first(
        Step(
            "cloud.destroy",
            operand="rm|rb|del|delete|deletefile|purge|rmdir|rmdirs|cleanup|forget|prune",
        ),
        Step(operand="ls|lsd|lsl|lsf|lsjson|du|size|stat|version|tree|list|snapshots"),
        Step("network.send"),
    ),
    lambda call, _: call.judge_unknown_arguments(),
)
"""Clients of storage elsewhere: what is there is listed, sent or removed."""


def judge_rsync(call: Call) -> None:
    """It copies whole folders, to another machine too, and can delete what is not in the source."""
    found = call.options(
        "e rsh rsync-path f filter exclude include exclude-from include-from files-from T temp-dir "
        "backup-dir log-file password-file port bwlimit max-size min-size info out-format compare-dest "
        "copy-dest link-dest B chmod chown"
    )
    for word in found.of("e rsh rsync-path"):
        if word.text.rsplit("/", 1)[-1].split()[:1] != ["ssh"]:
            call.find("unclear.command")
        call.script(word.text)
    call.apply(found, "write log-file")
    operands = found.operands
    remote = [word for word in operands if re.match(r"([\w.@-]+:|rsync://)", word.text)]
    dry = found.has("n dry-run list-only")
    if remote and not dry:
        call.find("network.send" if operands and operands[-1] in remote else "network.fetch")
    for word in operands[:-1]:
        if word not in remote:
            call.read(word, deep=True)
    if operands[1:] and operands[-1] not in remote and not dry:
        call.write(operands[-1])
        if any(flag.startswith("del") for flag in found.flags) or found.has("remove-source-files"):
            call.delete(operands[-1], deep=True, force=True)
    if found.has("remove-source-files") and not dry:
        for word in operands[:-1]:
            call.delete(word, deep=True, force=True)


PROGRAMS: dict[str, Handler] = {
    "curl": judge_curl,
    "wget wget2": WGET,
    "aria2c axel httpie http https xh curlie lynx links w3m elinks lftp ftp tftp sftp ncftpget ncftp yt-dlp "
    "youtube-dl youtube gallery-dl fetch lwp-request lwp-download GET POST HEAD wget-pipe ipfs "
    "magic-wormhole wormhole croc gopher dict rdate megaget rtorrent transmission-cli": judge_other_fetcher,
    "nc ncat netcat nc.openbsd nc.traditional socat telnet rlogin rsh rexec cryptcat pwncat sbd dnscat "
    "dnscat2 iodine chisel ngrok frpc frps cloudflared bore localtunnel lt gost autossh sshuttle msfconsole "
    "msfvenom evil-winrm weevely websocat wscat grpcurl mosquitto_pub mqtt "
    "smbclient ldapsearch rpcclient": judge_connection,
    "ssh mosh": judge_ssh,
    "rsync": judge_rsync,
    "scp rcp pscp": judge_scp,
    "rclone s3cmd s4cmd gsutil azcopy restic borg duplicity kopia syncthing unison croc": _STORAGE,
    "ping ping6 dig host nslookup drill whois traceroute tracepath mtr kdig": judge_lookup,
    "getent": judge_getent,
    "finger": row("", Step("network.fetch", argument=".*@.*")),
    "nmap masscan zmap tcpdump tshark wireshark dumpcap ngrep ettercap arpspoof nikto sqlmap gobuster dirb "
    "ffuf hydra medusa john hashcat aircrack-ng responder bettercap tcpflow netdiscover arp-scan wfuzz "
    "nuclei amass subfinder linpeas linpeas.sh pspy mimikatz crackmapexec": row(
        "",
        Step("network.remote"),
        Step("unclear.command", argument="(--script|--interactive).*"),
        output=FETCHED,
    ),
    "http-server serve live-server php-fpm vsftpd sshd dropbear in.tftpd dnsmasq smbd nfsd webfsd darkhttpd "
    "updog ttyd gotty shellinabox wetty tmate x11vnc vncserver twistd": always("network.listen"),
    "ss netstat": row("A f F D", Step("system.network", has="K kill D")),
    "mail mailx sendmail mutt msmtp swaks ssmtp exim telegram-send wall write slackcat": row(
        "a A s r S c b f", Step("network.send"), Step(does="read a A")
    ),
}
