"""Programs that change the machine, its users, its network or its processes, or run things later."""

import re
from collections.abc import Callable

from shared.policy.call import Call, Handler
from shared.policy.options import Options
from shared.policy.programs.rows import HARMLESS, Step, always, by_words, first, row
from shared.policy.scope import Stream
from shared.policy.secrets import guards_by_name

_ALWAYS = {
    "privilege.raise": "nsenter chroot bwrap capsh setcap gosu su-exec sg newgrp dzdo please "
    "machinectl "
    "systemd-nspawn lxc-attach firejail unshare setpriv runcon proot dlopen gcore frida ",
    "privilege.account": "useradd adduser userdel deluser usermod groupadd addgroup groupdel delgroup "
    "groupmod gpasswd "
    "passwd chpasswd chage chsh chfn visudo vipw vigr pwconv grpconv newusers faillock pam_tally2 "
    "pam-auth-update dscl sysadminctl ktutil kadmin kinit realm adcli net smbpasswd",
    "system.power": "shutdown reboot poweroff halt telinit init kexec pm-suspend pm-hibernate rtcwake",
    "system.change": "umount swapon swapoff insmod rmmod modprobe depmod losetup update-alternatives "
    "update-rc.d "
    "chkconfig grub-install update-grub grub-mkconfig update-initramfs dracut mkinitcpio bootctl "
    "efibootmgr ldconfig setenforce sysrq udevadm loadkeys kmod "
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
    "guard.tamper": "hwclock ntpdate chronyc ntpd auditctl auditd logrotate utmpdump aa-disable "
    "aa-teardown aa-complain semodule setsebool fail2ban-client rsyslogd tripwire aide rkhunter "
    "chkrootkit augenrules bleachbit",
    "persist.schedule": "at batch atrm anacron incrontab systemd-run schtasks fcrontab ",
    "exhaust.large": "stress stress-ng sysbench ab wrk siege hey vegeta locust jmeter iperf iperf3 fio "
    "bonnie++ "
    "bonnie cpuburn memtester memtest nohang hping3 hping slowloris slowhttptest prime95 mprime "
    "burnP6 thc-ssl-dos goldeneye",
    "secret.store": "security secret-tool pass gopass kwallet-query keyctl gnome-keyring-daemon bw op "
    "lpass vault "
    "keepassxc-cli gpg-agent ssh-agent ssh-copy-id ykman pass-otp "
    "chamber sops age age-keygen rbw 1password mokutil keytool pk12util tpm2_unseal cmdkey wincred "
    "truffleHog trufflehog gitleaks lazagne hashdump secretsdump.py gpgconf klist",
    "network.send": "xclip xsel pbpaste wl-paste pastebinit pastebin termbin transfer gist sprunge ix "
    "wgetpaste 0x0",
    "unknown.use": "dosbox wine qemu qemu-system-x86_64 qemu-img virt-install virsh vboxmanage vagrant "
    "multipass "
    "limactl colima xdg-open open start gnome-open sensible-browser firefox chromium google-chrome "
    "xterm gnome-terminal xdotool wmctrl scrot gs dtach abduco zellij byobu dialog "
    "whiptail zenity gimp blender busctl dbus-send gdbus qdbus notify-send crash ltrace3 lp lpr lpadmin "
    "cupsctl cancel cupsfilter eject mkbootimg tic mcopy setfont",
}


def judge_sudo(call: Call) -> None:
    """More rights, whatever for; what would run with them counts too."""
    call.find("privilege.raise")
    found = call.options("u g h p C r t T U D R a", permute=False)
    if call.name in {"su", "runuser"}:
        for word in call.options("c command s shell g G w").of("c command"):
            call.script(word.text)
        return
    words = list(found.operands)
    while words and re.match(r"\w+=", words[0].text):
        words = words[1:]
    if words and not found.has("e l v k K"):
        call.run(words)


def judge_ip(call: Call) -> None:
    """ip, route, ifconfig, arp: showing is everyday."""
    words = [word.text for word in call.options("f family n netns").operands]
    if call.name in {"ifconfig", "route", "arp"}:
        if len(words) > 1 or call.options().has("s d delete") or words[:1] in (["add"], ["del"]):
            call.find("system.network")
    elif call.name == "hostname":
        if words:
            call.find("system.change")
    elif any(
        word in "set add del delete flush change replace append exec up down attach".split()
        for word in words[1:]
    ) or any(word.text in {"-b", "-batch", "--batch"} for word in call.args):
        call.find("system.network" if "exec" not in words else "privilege.raise")


def judge_kill(call: Call) -> None:
    """Signals to its own jobs are everyday; to all, or to those of others, not."""
    words = [word.text for word in call.args]
    if not words or words[0] in {"-l", "-L", "--list", "-0"} or words[:2] in (["-s", "0"], ["-n", "0"]):
        return
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
    elif not targets or not all(text.startswith("%") for text in targets):
        call.find("process.kill")


def judge_pkill(call: Call) -> None:
    """By name, or all of a user's."""
    found = call.options("u U g G P s t signal o y")
    if call.name == "fuser" and not any("k" in flag for flag in found.flags):
        return
    if (
        call.name == "killall5"
        or found.has("u U user")
        or not found.operands
        or any(word.text in {".", ".*", "-1"} for word in found.operands)
    ):
        call.find("process.kill-all")
    if any(guards_by_name(word.text) for word in found.operands):
        call.find("guard.tamper")
    call.find("process.kill")


_SHOWS_STATE = re.compile(
    r"\s*(bt|backtrace|where|info\s|thread|frame|list|disas\w*|run|r|quit|q|up|down|ptype|whatis|bt\sfull"
    r"|set\s+(pagination|confirm|width|height|print)\b|x/|(p|print)\s+[\w.>*&\[\]-]+$)[^|!>()]*$"
)
"""What shows the state of a program that is being debugged, or of what is left of it."""


def judge_debugger(call: Call) -> None:
    """Debuggers run and change processes; backtraces of core files do neither."""
    found = call.options("p pid ex eval-command x command iex o one-line")
    told = found.of("ex eval-command iex o one-line")
    if found.has("p pid"):
        call.find("process.inspect")
    elif not (found.has("batch") and told and all(_SHOWS_STATE.match(word.text) for word in told)):
        call.find("unknown.use")
    for word in [*found.of("x command"), *found.operands]:
        call.read(word)
    for word in told:
        text = re.sub(r"^\s*(!|shell\s|python\s)", "", word.text)
        if text != word.text:
            call.run_hidden(text)


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


def judge_mount(call: Call) -> None:
    """What is mounted may be looked at."""
    if call.options("t types O").operands or call.options("t").has("a all bind o"):
        call.find("system.change")


def _judge_journal(call: Call, found: Options) -> None:
    """The log is read, or cut."""
    cuts = ("vacuum", "rotate", "flush", "sync", "relinquish")
    if any(option.startswith(cuts) for option in (*found.flags, *found.values)):
        call.find("guard.tamper")


_UMASK = r"[0-7]{0,3}[0145]|a[+=].*w.*|o[+=].*w.*"
"""Everybody may write what is made from now on."""


_NAMED = r"[\w./:@-]+"
_SHOWN = {
    "fdisk": rf"(-[lxu]+|--list)( {_NAMED})*",
    "sfdisk": rf"(-[lJFV]|--list|--json|--list-free)( {_NAMED})*",
    "parted": rf"(-[lsm]+|--list)|(-s )?/dev/{_NAMED} (unit \w+ )?print( free)?",
    "gdisk sgdisk": rf"(-[lp]|--print)( {_NAMED})*",
    "mdadm": rf"(-D|-Q|-E|--detail|--query|--examine|--detail --scan|-Ds)( {_NAMED})*",
    "zpool": rf"(status|list|iostat|history|get)( {_NAMED})*",
    "zfs": rf"(list|get)( {_NAMED})*",
    "btrfs": rf"(filesystem|fi|subvolume|device) (show|df|usage|list|stats)( {_NAMED})*",
    "nvme": rf"(list|smart-log|id-ctrl)( {_NAMED})*",
    "mysqladmin": r"(-\w+( \w+)? )*(status|ping|version|processlist|extended-status|variables)",
    "visudo": r"-c|--check",
    "dmsetup": r"(ls|info|status|table)( [\w-]+)*",
    "hdparm": rf"-[IitTg]+( {_NAMED})*",
    "swapon": r"(-s|--show|--summary)",
    "losetup": r"(-a|-l|--all|--list)",
    "iptables ip6tables": r"(-t \w+ )?-[nvx]*[LS][nvx]*( [A-Z]\w*)?( (-[nvx]+|--line-numbers|-t \w+))*",
    "nft": r"(-a )?list (ruleset|tables?|chains?|sets?)( \w+)*",
    "ufw": r"status( verbose| numbered)?|version|app list",
    "firewall-cmd": r"(--list-[\w-]+|--state|--get-[\w-]+|--zone=\w+ --list-all)",
    "nmcli": r"(-[tfpg]( [\w,-]+)? )?(d|dev|device|c|con|connection|g|general|radio)"
    r"( (status|show|list|wifi|wifi list)( [\w -]+)?)?",
    "tc": rf"(-s )?(qdisc|class|filter)( show)?( dev {_NAMED})?",
    "brctl": r"show( \w+)?",
    "iw iwconfig": r"|dev( \w+ (info|link))?|list|phy",
    "ethtool": r"(-[iSkgca] )?[a-z]\w+",
    "rfkill": r"list( \w+)?|",
    "hwclock": r"|-r|--show|--verbose",
    "chronyc": r"(-n )?(tracking|sources|sourcestats|activity)( -v)?",
    "auditctl": r"-[ls]",
    "update-alternatives": r"--(list|display|query|get-selections)( [\w.-]+)?",
    "chkconfig": r"(--list)?( [\w-]+)?",
    "supervisorctl": r"status( [\w:*-]+)*|version|avail",
    "pm2": r"(list|ls|status|l|jlist|prettylist|show|describe|logs|monit)( [\w-]+)*( --\w+( \d+)?)*",
    "monit": r"(status|summary)( \w+)?",
    "fail2ban-client": r"status( [\w-]+)?|ping|version",
    "ldconfig": r"-[pvN]+",
    "modprobe": r"(-n|--show-depends|-D|--dry-run)( -v)?( \w+)?",
    "udevadm": rf"info( {_NAMED}| --[\w=/-]+)*",
    "efibootmgr bootctl": r"(-v|status|list)?",
    "chage": r"(-l|--list)( \w+)?",
    "passwd": r"(-S|--status)( \w+)?",
    "at": r"-l|-V",
    "rc-service": r"[\w-]+ status|-l|--list",
    "sv": r"status( [\w/-]+)*",
    "initctl": r"(list|status)( [\w-]+)?",
    "launchctl": r"(list|print)( [\w./]+)?",
    "spctl csrutil": r"(--)?status",
    "pmset": r"-g( \w+)?",
    "virsh": r"(list|dominfo|domstate|version|net-list|pool-list)( --all| [\w-]+)*",
    "vagrant": r"(status|global-status|version|validate|box list|plugin list)",
    "qemu-img": rf"info( {_NAMED})+",
    "keytool": r"-list -keystore [\w.-]+|-printcert -file [\w.-]+",
    "lxc incus": r"(list|ls|info|image list|version)( [\w-]+)*",
    "busctl": r"(list|tree|status|introspect)( [\w./-]+)*",
    "locale-gen": r"--list",
}
_IS_SHOWN: dict[str, Callable[[str], object]] = {
    name: re.compile(pattern).fullmatch for names, pattern in _SHOWN.items() for name in names.split()
}


def showing(programs: dict[str, Handler]) -> dict[str, Handler]:
    """``programs`` with those passed over that are asked only to show."""
    return {name: _unless_showing(name, handler) for name, handler in programs.items()}


def _unless_showing(name: str, handler: Handler) -> Handler:
    looks = _IS_SHOWN.get(name)
    if looks is None:
        return handler

    def judge(call: Call) -> Stream | None:
        words = call.args
        if all(word.known and not word.hidden for word in words) and looks(" ".join(w.text for w in words)):
            return None
        return handler(call)

    return judge


PROGRAMS: dict[str, Handler] = {
    **{names: always(rule) for rule, names in _ALWAYS.items()},
    "sudo doas su runuser sudoedit pkexec gksudo kdesudo": judge_sudo,
    "mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.ntfs mkfs.f2fs mkfs.exfat "
    "mkfs.minix mkfs.jfs mknod": always("destroy.device"),
    "crontab": row("", first(Step(line="-l $"), Step("persist.schedule"))),
    "getcap": row("", Step("secret.search", has="r")),
    "umask": row("", Step("write.permissions", argument=_UMASK)),
    "mount": judge_mount,
    "ip ifconfig route arp hostname bridge": judge_ip,
    "sysctl": row(
        "p load",
        Step("system.change", has="w p load system write"),
        Step("system.change", operand=".*=.*"),
    ),
    "dmesg": row("l f n", Step("guard.tamper", has="C c clear read-clear D n")),
    "journalctl": row(
        "u n S U t p o since until unit vacuum-size vacuum-time vacuum-files lines output", _judge_journal
    ),
    "ulimit": row("", Step("exhaust.large", argument="unlimited")),
    "ssh-keyscan": always("network.remote"),
    "systemctl": _SYSTEMCTL,
    "timedatectl": by_words("guard.tamper", {"": "status,show,timesync-status,list-timezones"}),
    "hostnamectl localectl": by_words(
        "system.change", {"": "status,show,list-locales,list-keymaps,hostname"}
    ),
    "loginctl": by_words(
        "unknown.use", {"": "list-sessions,list-users,list-seats,session-status,user-status,show-session"}
    ),
    "reg wmic rundll32 regsvr32 mshta certutil bitsadmin": always("system.change"),
    "service": row("", first(Step(line="(?:.* )?(status|--status-all) $"), Step("system.service"))),
    "last lastb lastlog": HARMLESS,
    "complete": row("C F", Step("unclear.command", has="C")),
    "bind": row("x f", Step("run.preload", has="x f")),
    "kill": judge_kill,
    "pkill killall killall5 skill snice xkill fuser": judge_pkill,
    "gdb lldb": judge_debugger,
    "renice": always("process.kill"),
    "reptyr": always("process.inspect"),
}
