"""Programs that administer the machine, asked only to show: tables, states, lists."""

import re
from collections.abc import Callable

from shared.policy.call import Call, Handler
from shared.policy.scope import Stream

_NAME = r"[\w./:@-]+"
_SHOWN = {
    "fdisk": rf"(-[lxu]+|--list)( {_NAME})*",
    "sfdisk": rf"(-[lJFV]|--list|--json|--list-free)( {_NAME})*",
    "parted": rf"(-[lsm]+|--list)|(-s )?/dev/{_NAME} (unit \w+ )?print( free)?",
    "gdisk sgdisk": rf"(-[lp]|--print)( {_NAME})*",
    "mdadm": rf"(-D|-Q|-E|--detail|--query|--examine|--detail --scan|-Ds)( {_NAME})*",
    "zpool": rf"(status|list|iostat|history|get)( {_NAME})*",
    "zfs": rf"(list|get)( {_NAME})*",
    "btrfs": rf"(filesystem|fi|subvolume|device) (show|df|usage|list|stats)( {_NAME})*",
    "nvme": rf"(list|smart-log|id-ctrl)( {_NAME})*",
    "mysqladmin": r"(-\w+( \w+)? )*(status|ping|version|processlist|extended-status|variables)",
    "visudo": r"-c|--check",
    "dmsetup": r"(ls|info|status|table)( [\w-]+)*",
    "hdparm": rf"-[IitTg]+( {_NAME})*",
    "swapon": r"(-s|--show|--summary)",
    "losetup": r"(-a|-l|--all|--list)",
    "iptables ip6tables": r"(-t \w+ )?-[nvx]*[LS][nvx]*( [A-Z]\w*)?( (-[nvx]+|--line-numbers|-t \w+))*",
    "nft": r"(-a )?list (ruleset|tables?|chains?|sets?)( \w+)*",
    "ufw": r"status( verbose| numbered)?|version|app list",
    "firewall-cmd": r"(--list-[\w-]+|--state|--get-[\w-]+|--zone=\w+ --list-all)",
    "nmcli": r"(-[tfpg]( [\w,-]+)? )?(d|dev|device|c|con|connection|g|general|radio)"
    r"( (status|show|list|wifi|wifi list)( [\w -]+)?)?",
    "tc": rf"(-s )?(qdisc|class|filter)( show)?( dev {_NAME})?",
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
    "udevadm": rf"info( {_NAME}| --[\w=/-]+)*",
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
    "qemu-img": rf"info( {_NAME})+",
    "keytool": r"-list -keystore [\w.-]+|-printcert -file [\w.-]+",
    "lxc incus": r"(list|ls|info|image list|version)( [\w-]+)*",
    "busctl": r"(list|tree|status|introspect)( [\w./-]+)*",
    "locale-gen": r"--list",
}
_LOOKS: dict[str, Callable[[str], object]] = {
    name: re.compile(pattern).fullmatch for names, pattern in _SHOWN.items() for name in names.split()
}


def showing(programs: dict[str, Handler]) -> dict[str, Handler]:
    """``programs`` with those passed over that are asked only to show."""
    return {name: _unless_showing(name, handler) for name, handler in programs.items()}


def _unless_showing(name: str, handler: Handler) -> Handler:
    looks = _LOOKS.get(name)
    if looks is None:
        return handler

    def judge(call: Call) -> Stream | None:
        words = call.args
        if all(word.known and not word.hidden for word in words) and looks(" ".join(w.text for w in words)):
            return None
        return handler(call)

    return judge
