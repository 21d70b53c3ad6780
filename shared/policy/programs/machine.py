"""Programs that change the machine, its users, its network or its processes, or run things later."""

import re

from shared.policy.call import Call, Handler
from shared.policy.paths import Place
from shared.policy.programs.rows import by_words

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
    def judge(call: Call) -> None:
        call.find(rule)
        for word in call.args:
            if call.place(word) is Place.DEVICE and rule == "destroy.device":
                call.find("destroy.device")

    return judge


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


def judge_crontab(call: Call) -> None:
    """The own table may be looked at."""
    if [word.text for word in call.args] != ["-l"]:
        call.find("persist.schedule")


def judge_mount(call: Call) -> None:
    """What is mounted may be looked at."""
    if call.options("t types O").operands or call.options("t").has("a all bind o"):
        call.find("system.change")


def judge_umask(call: Call) -> None:
    """What everybody may do with files made from now on."""
    if any(re.fullmatch(r"[0-7]{0,3}[0145]|a[+=].*w.*|o[+=].*w.*", word.text) for word in call.args):
        call.find("write.permissions")


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


def judge_sysctl(call: Call) -> None:
    """Values of the kernel are shown, or set."""
    found = call.options("p load")
    if found.has("w p load system write") or any("=" in word.text for word in found.operands):
        call.find("system.change")


def judge_dmesg(call: Call) -> None:
    """The kernel's messages; clearing them hides traces."""
    if call.options("l f n").has("C c clear read-clear D n"):
        call.find("guard.tamper")


def judge_journal(call: Call) -> None:
    """The log is read, or cut."""
    found = call.options("u n S U t p o since until unit vacuum-size vacuum-time vacuum-files lines output")
    if any(
        flag.startswith(("vacuum", "rotate", "flush", "sync", "relinquish"))
        for flag in [*found.flags, *found.values]
    ):
        call.find("guard.tamper")


def judge_ulimit(call: Call) -> None:
    """Limits may be shown and lowered."""
    if any(word.text == "unlimited" for word in call.args):
        call.find("exhaust.large")


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


def judge_service(call: Call) -> None:
    """service NAME status shows."""
    if not any(word.text in {"status", "--status-all"} for word in call.args[-1:]):
        call.find("system.service")


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
    **dict.fromkeys("ip ifconfig route arp hostname bridge".split(), judge_ip),
    "sysctl": judge_sysctl,
    "dmesg": judge_dmesg,
    "journalctl": judge_journal,
    "ulimit": judge_ulimit,
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
    "lastlog": lambda call: None,
    **dict.fromkeys("last lastb".split(), lambda call: None),
    "mknod": _rule("destroy.device"),
    "complete": lambda call: call.find("unclear.command") if call.options("C F").has("C") else None,
    "bind": lambda call: call.find("run.preload") if call.options("x f").has("x f") else None,
}
