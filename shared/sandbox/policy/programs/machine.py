"""Programs that change the machine, its users, its network or its processes, or run things later."""

import re

from shared.sandbox.policy.call import Call, Handler
from shared.sandbox.policy.paths import Place
from shared.sandbox.policy.programs.subcommands import by_words
from shared.sandbox.policy.scope import Stream
from shared.sandbox.policy.words import Word

_ALWAYS = {
    "privilege.raise": "pkexec nsenter chroot bwrap capsh setcap runuser gosu su-exec sg newgrp dzdo please "
    "machinectl "
    "systemd-nspawn lxc-attach firejail unshare setpriv runcon proot dlopen gdb lldb gcore frida ",
    "privilege.account": "useradd adduser userdel deluser usermod groupadd addgroup groupdel delgroup "
    "groupmod gpasswd "
    "passwd chpasswd chage chsh chfn visudo vipw vigr pwconv grpconv newusers faillock pam_tally2 "
    "pam-auth-update dscl sysadminctl ktutil kadmin kinit realm adcli net smbpasswd",
    "system.power": "shutdown reboot poweroff halt telinit init kexec pm-suspend pm-hibernate rtcwake",
    "system.change": "umount swapon swapoff insmod rmmod modprobe depmod losetup update-alternatives "
    "update-rc.d "
    "chkconfig grub-install update-grub grub-mkconfig update-initramfs dracut mkinitcpio bootctl "
    "efibootmgr ldconfig hostnamectl localectl setenforce sysrq udevadm loadkeys kmod "
    "dpkg-reconfigure debconf-set-selections fsfreeze quotaon quotaoff setquota edquota locale-gen "
    "tune2fs resize2fs xfs_growfs fsck e2fsck xfs_repair zramctl nvram launchctl pmset systemsetup "
    "csrutil spctl bpftool bpftrace systemtap stap usermount fusermount swaplabel kldload vbetool "
    "setleds chvt openvt",
    "destroy.device": "mkfs mke2fs mkswap wipefs blkdiscard fdisk cfdisk sfdisk parted gdisk sgdisk cgdisk "
    "hdparm "
    "sdparm badblocks dban nwipe mdadm lvremove vgremove pvremove lvreduce vgreduce pvcreate "
    "vgcreate lvcreate cryptsetup zpool zfs btrfs nvme diskutil dmsetup format mkntfs mkdosfs newfs "
    "flashrom flash_erase mtd_debug ddrescue dcfldd dc3dd partprobe sg_format partclone ntfsresize "
    "e2label xfs_mkfs bcache wodim cdrecord growisofs",
    "system.network": "iptables ip6tables nft iptables-restore ip6tables-restore iptables-nft ebtables "
    "arptables ipset "
    "firewall-cmd ufw ifdown ifup nmcli brctl tc dhclient wpa_cli iwconfig iw networksetup pfctl wg "
    "wg-quick openvpn ipvsadm ethtool rfkill netplan vtysh ovs-vsctl macchanger dhcpcd resolvconf",
    "system.service": "rc-service openrc supervisorctl initctl sv svc s6-svc monit pm2 invoke-rc.d svcadm sc "
    "systemd-tmpfiles",
    "guard.tamper": "timedatectl hwclock ntpdate chronyc ntpd auditctl auditd logrotate utmpdump aa-disable "
    "aa-teardown aa-complain semodule setsebool fail2ban-client rsyslogd tripwire aide rkhunter "
    "chkrootkit nsc augenrules bleachbit",
    "persist.schedule": "at batch atrm anacron incrontab systemd-run schtasks fcrontab ",
    "exhaust.large": "stress stress-ng sysbench ab wrk siege hey vegeta locust jmeter iperf iperf3 fio "
    "bonnie++ "
    "bonnie cpuburn memtester memtest nohang hping3 hping slowloris slowhttptest prime95 mprime "
    "burnP6 thc-ssl-dos goldeneye",
    "secret.store": "security secret-tool pass gopass kwallet-query keyctl gnome-keyring-daemon bw op "
    "lpass vault "
    "keepassxc-cli gpg gpg2 gpg-agent ssh-add ssh-agent ssh-keygen ssh-copy-id ykman pass-otp "
    "chamber sops age age-keygen rbw 1password mokutil keytool pk12util tpm2_unseal cmdkey wincred "
    "truffleHog trufflehog gitleaks lazagne hashdump secretsdump.py gpgconf klist",
    "network.send": "xclip xsel pbpaste wl-paste pastebinit pastebin termbin transfer gist sprunge ix "
    "wgetpaste 0x0",
    "unknown.use": "dosbox wine qemu qemu-system-x86_64 qemu-img virt-install virsh vboxmanage vagrant "
    "multipass "
    "limactl colima xdg-open open start gnome-open sensible-browser firefox chromium google-chrome "
    "xterm gnome-terminal xdotool wmctrl scrot gs screen tmux dtach abduco zellij byobu dialog "
    "whiptail zenity gimp blender busctl dbus-send gdbus qdbus notify-send crash ltrace3 lp lpr lpadmin "
    "cupsctl cancel cupsfilter eject mkbootimg tic mcopy setfont ex loginctl",
}


def _rule(rule: str) -> Handler:
    def judge(call: Call) -> Stream | None:
        call.find(rule)
        for word in call.args:
            if call.place(word) is Place.DEVICE and rule == "destroy.device":
                call.find("destroy.device")
        return None

    return judge


def judge_sudo(call: Call) -> Stream | None:
    """More rights, whatever for; what would run with them counts too."""
    call.find("privilege.raise")
    found = call.options("u g h p C r t T U D R a", permute=False)
    if call.name in {"su", "runuser"}:
        for word in call.options("c command s shell g G w").of("c", "command"):
            call.script(word.text)
        return None
    words = list(found.operands)
    while words and re.match(r"\w+=", words[0].text):
        words = words[1:]
    if words and not found.has("e", "l", "v", "k", "K"):
        call.run(words)
    return None


def judge_crontab(call: Call) -> Stream | None:
    """The own table may be looked at."""
    if [word.text for word in call.args] != ["-l"]:
        call.find("persist.schedule")
    return None


def judge_mount(call: Call) -> Stream | None:
    """What is mounted may be looked at."""
    if call.options("t types O").operands or call.options("t").has("a", "all", "bind", "o"):
        call.find("system.change")
    return None


def judge_umask(call: Call) -> Stream | None:
    """What everybody may do with files made from now on."""
    if any(re.fullmatch(r"[0-7]{0,3}[0145]|a[+=].*w.*|o[+=].*w.*", word.text) for word in call.args):
        call.find("write.permissions")
    return None


def judge_kill(call: Call) -> Stream | None:
    """Signals to its own jobs are everyday; to all, or to those of others, not."""
    words = [word.text for word in call.args]
    if words[:1] in (["-l"], ["-L"], ["--list"]) or not words:
        return None
    targets = [
        text
        for text in words
        if not text.startswith("-")
        or (text == "-1" and text != words[0])
        or (re.fullmatch(r"-\d{2,}", text) and text != words[0])
    ]
    if words[0] in {"-s", "-n", "--signal"}:
        targets = targets[1:]
    if any(text in {"-1", "1", "0"} for text in targets) or (words[-1] == "-1" and len(words) > 1):
        call.find("process.kill-all")
    elif words[0] == "-0":
        return None
    elif not all(re.match(r"%", text) for text in targets):
        call.find("process.kill")
    return None


def judge_pkill(call: Call) -> Stream | None:
    """By name, or all of a user's."""
    found = call.options("u U g G P s t signal o y")
    if (
        call.name == "killall5"
        or found.has("u", "U", "user")
        or not found.operands
        or any(word.text in {".", ".*", "-1"} for word in found.operands)
    ):
        call.find("process.kill-all")
    if any(
        re.search(r"nats|mailroom|audit|sshd|systemd|init|syslog|critic|nexus|conductor", word.text)
        for word in found.operands
    ):
        call.find("guard.tamper")
    call.find("process.kill")
    return None


def judge_ip(call: Call) -> Stream | None:
    """ip, route, ifconfig, arp: showing is everyday."""
    words = [word.text for word in call.options("f family n netns").operands]
    if call.name in {"ifconfig", "route", "arp"}:
        if len(words) > 1 or call.options().has("s", "d", "delete") or words[:1] in (["add"], ["del"]):
            call.find("system.network")
    elif call.name == "hostname":
        if words:
            call.find("system.change")
    elif any(
        word in "set add del delete flush change replace append exec up down attach".split()
        for word in words[1:]
    ) or call.options("b batch").has("b", "batch"):
        call.find("system.network" if "exec" not in words else "privilege.raise")
    return None


def judge_sysctl(call: Call) -> Stream | None:
    """Values of the kernel are shown, or set."""
    found = call.options("p load")
    if found.has("w", "p", "load", "system", "write") or any("=" in word.text for word in found.operands):
        call.find("system.change")
    return None


def judge_dmesg(call: Call) -> Stream | None:
    """The kernel's messages; clearing them hides traces."""
    if call.options("l f n").has("C", "c", "clear", "read-clear", "D", "n"):
        call.find("guard.tamper")
    return None


def judge_journal(call: Call) -> Stream | None:
    """The log is read, or cut."""
    found = call.options("u n S U t p o since until unit vacuum-size vacuum-time vacuum-files lines output")
    if any(
        flag.startswith(("vacuum", "rotate", "flush", "sync", "relinquish"))
        for flag in [*found.flags, *found.values]
    ):
        call.find("guard.tamper")
    return None


def judge_ulimit(call: Call) -> Stream | None:
    """Limits may be shown and lowered."""
    if any(word.text == "unlimited" for word in call.args):
        call.find("exhaust.large")
    return None


def judge_debugger(call: Call) -> Stream | None:
    """Debuggers run and change processes; backtraces of core files do neither."""
    found = call.options("p pid ex eval-command x command iex")
    call.find("process.inspect" if found.has("p", "pid") else "unknown.use")
    for word in found.of("ex", "eval-command", "iex"):
        text = re.sub(r"^\s*(!|shell\s|python\s)", "", word.text)
        if text != word.text:
            call.find("unclear.command")
            call.script(text)
    return None


def judge_script(call: Call) -> Stream | None:
    """script records a terminal, and runs a command with -c."""
    for word in call.options("c command t T I O B E").of("c", "command"):
        call.script(word.text)
    call.find("unknown.use")
    return None


def judge_multiplexer(call: Call) -> Stream | None:
    """screen and tmux leave things running."""
    words = [word.text for word in call.args]
    if any(word in {"ls", "list-sessions", "-ls", "-list", "-V", "-v", "list-windows"} for word in words[:1]):
        return None
    call.find("unknown.use")
    rest = [word for word in call.args if " " in word.text]
    for word in rest:
        call.script(word.text)
    if call.name == "screen":
        operands = call.options("S c t s h e", permute=False).operands
        if operands:
            call.run(operands)
    return None


def judge_editor(call: Call) -> Stream | None:
    """vim, ed, ex, emacs: commands for the editor can run programs."""
    found = call.options("c cmd S u U i w W T")
    texts = [word.text for word in found.of("c", "cmd")]
    texts += [word.text[1:] for word in found.operands if word.text.startswith("+")]
    if call.stdin.text:
        texts += call.stdin.text.splitlines()
    texts += [part for text in texts for part in text.split("|")[1:]]
    for text in texts:
        if re.match(r"\s*:?\s*set?\s+sh(ell)?=", text):
            call.find("unclear.command")
        match = re.match(
            r"\s*:?\s*[\d,.%$]*\s*(r\s*!|w\s*!|!|silent!?\s*!|term(?:inal)?\s|sh(?:ell)?\b|system\()(.*)",
            text,
        )
        if match:
            call.find("unclear.command")
            call.script(match[2])
        elif re.search(
            r"system\(|:?py(thon|3)?x?\b|:?lua\b|:?perl\b|:?ruby\b|:?so(urce)?\b|execute|job_start|writefile"
            r"|delete\(|os\.|libcall|!",
            text,
        ):
            call.find("unclear.code", call.name)
        elif target := re.match(r"\s*:?[\d,%.$]*\s*(?:w|wq|x|sav\w*|up\w*|f|e|r)!?\s+([^\s!]\S*)", text):
            call.write(Word(target[1]))
            call.read(Word(target[1]))
    if found.has("S", "s", "u", "U"):
        for word in [*found.of("S", "u", "U")]:
            if word.text not in {"NONE", "NORC", "DEFAULTS"}:
                call.find("unclear.code", call.name)
    for word in found.operands:
        if not word.text.startswith("+"):
            call.read(word)
            call.write(word)
    return None


def judge_man(call: Call) -> Stream | None:
    """Manuals; a pager of one's own runs."""
    found = call.options("P pager H html C M m L l s S R E p preprocessor")
    if found.has("P", "pager", "H", "html", "C"):
        call.find("unclear.command")
        for word in found.of("P", "pager", "H", "html"):
            call.script(word.text)
    for word in found.of("l"):
        call.read(word)
    return None


def judge_gpg(call: Call) -> Stream | None:
    """Signatures may be checked; keys are left alone."""
    found = call.options("o output r recipient u keyserver homedir")
    if found.has("verify", "version", "print-md", "help", "list-keys", "k", "dearmor"):
        for word in found.operands:
            call.read(word)
        return None
    call.find("secret.store")
    return None


def judge_sshkeys(call: Call) -> Stream | None:
    """Fingerprints are shown; keys are not made."""
    found = call.options("f F t b N C m E")
    if found.has("l") and not found.has("t"):
        return None
    call.find("secret.store")
    return None


_SYSTEMCTL = by_words(
    "system.service",
    {
        "": (
            "status,show,list-units,list-unit-files,is-active,is-enabled,is-failed,cat,"
            "list-timers,list-dependencies,list-sockets,get-default,help,list-jobs,"
            "show-environment,is-system-running"
        ),
        "system.power": (
            "poweroff,reboot,halt,suspend,hibernate,rescue,emergency,kexec,isolate,default,soft-reboot,exit"
        ),
        "persist.schedule": (
            "enable,link,edit,set-property,preset,add-wants,reenable,import-environment,set-environment"
        ),
        "system.change": "mask,stop,disable,kill,daemon-reload,daemon-reexec,revert,unmask,set-default",
    },
    "H M t p n o lines property type state host output",
)
_SERVICE = by_words("system.service", {})


def judge_service(call: Call) -> Stream | None:
    """service NAME status shows."""
    if not any(word.text in {"status", "--status-all"} for word in call.args[-1:]):
        call.find("system.service")
    return None


PROGRAMS: dict[str, Handler] = {
    **{name: _rule(rule) for rule, names in _ALWAYS.items() for name in names.split()},
    **dict.fromkeys("sudo doas su runuser sudoedit pkexec gksudo kdesudo".split(), judge_sudo),
    **dict.fromkeys(
        "mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs mkfs.f2fs "
        "mkfs.exfat mkfs.minix mkfs.jfs".split(),
        _rule("destroy.device"),
    ),
    "crontab": judge_crontab,
    "getcap": lambda call: call.find("secret.search") if call.options().has("r") else None,
    "umask": judge_umask,
    "mount": judge_mount,
    "kill": judge_kill,
    **dict.fromkeys("pkill killall killall5 skill snice xkill fuser".split(), judge_pkill),
    **dict.fromkeys("ip ifconfig route arp hostname bridge".split(), judge_ip),
    "sysctl": judge_sysctl,
    "dmesg": judge_dmesg,
    "journalctl": judge_journal,
    "ulimit": judge_ulimit,
    **dict.fromkeys("gdb lldb".split(), judge_debugger),
    "script": judge_script,
    **dict.fromkeys("screen tmux".split(), judge_multiplexer),
    **dict.fromkeys(
        "vi vim nvim ex view rvim gvim ed red nano pico micro joe jed mcedit helix hx kak "
        "emacsclient".split(),
        judge_editor,
    ),
    "man": judge_man,
    **dict.fromkeys("gpg gpg2".split(), judge_gpg),
    "ssh-keygen": judge_sshkeys,
    "ssh-keyscan": _rule("network.remote"),
    "systemctl": _SYSTEMCTL,
    "timedatectl": by_words("guard.tamper", {"": "status,show,timesync-status,list-timezones"}),
    **dict.fromkeys(
        "hostnamectl localectl".split(),
        by_words("system.change", {"": "status,show,list-locales,list-keymaps,hostname"}),
    ),
    "loginctl": by_words(
        "unknown.use", {"": "list-sessions,list-users,list-seats,session-status,user-status,show-session"}
    ),
    **dict.fromkeys("reg wmic rundll32 regsvr32 mshta certutil bitsadmin".split(), _rule("system.change")),
    "service": judge_service,
    "renice": _rule("process.kill"),
    "lastlog": lambda call: None,
    **dict.fromkeys("last lastb".split(), lambda call: None),
    "reptyr": _rule("process.inspect"),
    "mknod": _rule("destroy.device"),
    "complete": lambda call: call.find("unclear.command") if call.options("C F").has("C") else None,
    "bind": lambda call: call.find("run.preload") if call.options("x f").has("x", "f") else None,
}
